import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { createServer } from 'node:net';
import { describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Coordinator } from './coordinator.js';
import { describeSelf } from './host.js';
import { attendMeeting } from './meeting.js';
import { makeSecret } from './store/authentication.js';
import { TcpStore } from './store/tcp-store.js';
import { packageVersion } from './version.js';
import { init } from './world.js';

const version = packageVersion();
const reason = new Error('changed my mind');
const environment = (rank: number, size: number, more: Record<string, string> = {}) => ({
  RANK: String(rank),
  WORLD_SIZE: String(size),
  LOCAL_WORLD_SIZE: String(size),
  TORCHELASTIC_RUN_ID: `world-test-${process.pid}`,
  ...more,
});

/** Another rank that waits in init(), in the hands of the test; what it waits for. */
async function wait(port: number, secret: string, rank: number, size: number) {
  const store = await TcpStore.connect({ host: '127.0.0.1', port, secret, version });
  const joined = store.call({ op: 'join', size, member: describeSelf(rank, 1, {}) }, undefined, 30_000);
  joined.catch(() => undefined);
  return { joined, close: () => store.close() };
}

describe('init() with a signal', () => {
  it('gives up where nobody has come: with an aborted signal, before rank 0, before the store listens, before it answers', async () => {
    const silent = createServer(() => undefined).listen(0, '127.0.0.1');
    await new Promise((resolve) => silent.once('listening', resolve));
    const { port } = silent.address() as { port: number };
    const [secret, before] = [makeSecret(), readdirSync('/proc/self/fd').length];
    const stores = { VERBENA_SECRET: secret, VERBENA_STORE: `127.0.0.1:${port}` };
    await assert.rejects(init({ signal: AbortSignal.abort(reason), env: environment(1, 2) }), reason);
    for (const env of [{}, { ...stores, VERBENA_STORE: '127.0.0.1:1' }, stores]) {
      const controller = new AbortController();
      const joining = init({ signal: controller.signal, env: environment(1, 2, env) });
      await turn();
      controller.abort(reason);
      await assert.rejects(joining, reason);
    }
    silent.close();
    for (let look = 0; readdirSync('/proc/self/fd').length > before && look < 500; look++) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    assert.ok(readdirSync('/proc/self/fd').length <= before, 'sockets are left');
  });

  it('that gives up among others is lost to them, and comes too late afterwards', async () => {
    const secret = makeSecret();
    const coordinator = await Coordinator.listen({ size: 3, secret, version, log: () => {} });
    const env = environment(1, 3, { VERBENA_SECRET: secret, VERBENA_STORE: `127.0.0.1:${coordinator.port}` });
    const other = await wait(coordinator.port, secret, 2, 3);
    const controller = new AbortController();
    const joining = init({ signal: controller.signal, env });
    while (!coordinator.hasJoined(1)) await turn();
    controller.abort(reason);
    await assert.rejects(joining, reason);
    const lost = {
      code: 'LAUNCH_RANK_LOST',
      rank: 1,
      message: /^rank 1 \(pid .* is lost: it left init\(\): its process ended, or gave up/,
    };
    await assert.rejects(other.joined, lost);
    await assert.rejects(init({ env }), lost);
    other.close();
    coordinator.close();
  });

  it('that gives up as rank 0 takes the store along, by name, and holds nothing', async () => {
    const env = environment(0, 3);
    const controller = new AbortController();
    const joining = init({ signal: controller.signal, env });
    const meeting = `torchrun-${env.TORCHELASTIC_RUN_ID}`;
    const { port, secret } = await attendMeeting(meeting, 30_000, undefined);
    const other = await wait(port, secret, 1, 3);
    controller.abort(reason);
    await assert.rejects(joining, reason);
    await assert.rejects(other.joined, { code: 'LAUNCH_COORDINATOR_LOST', message: /the launcher, or rank 0\) ended/ });
    await assert.rejects(attendMeeting(meeting, 0, undefined), { code: 'LAUNCH_TIMEOUT', rank: 0 });
  });
});
