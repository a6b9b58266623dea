import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { after, describe, it } from 'node:test';
import { Coordinator, type CoordinatorOptions } from './coordinator.js';
import { LaunchError } from './errors.js';
import { encodeLifeline, FRAME, LifelineReader } from './lifeline.js';
import type { Member } from './member.js';
import { makeSecret } from './store/authentication.js';
import { TcpStore } from './store/tcp-store.js';

const opened: { close(): void }[] = [];
after(() => {
  for (const one of opened) one.close();
});

async function stage(size: number, options: Partial<CoordinatorOptions> = {}) {
  const secret = makeSecret();
  const coordinator = await Coordinator.listen({ size, secret, version: '1', log: () => {}, ...options });
  opened.push(coordinator);
  const join = async (rank: number, given: { size?: number; pid?: number; timeoutMs?: number } = {}) => {
    const store = await TcpStore.connect({ host: '127.0.0.1', port: coordinator.port, secret, version: '1', size });
    opened.push(store);
    const member: Member = {
      rank,
      host: { id: 'h', machine: 'h', boot: 'h', name: 'box' },
      pid: given.pid ?? 100 + rank,
      startTime: 1,
      numa: 0,
      nics: [],
      addresses: [],
      engine: 'auto',
      node: 'v20',
    };
    const joined = store.call({ op: 'join', size: given.size ?? size, member }, undefined, given.timeoutMs ?? 20_000);
    return { store, joined };
  };
  return { coordinator, join };
}

/** A lifeline as the native thread of a rank holds it, but in the hands of the test. */
async function attach(port: number, ticket: string) {
  const socket = connect(port, '127.0.0.1');
  opened.push({ close: () => socket.destroy() });
  const frames: { type: number; rank: number; text: string }[] = [];
  const reader = new LifelineReader();
  socket.on('data', (chunk) => frames.push(...(reader.push(chunk) ?? [])));
  socket.on('error', () => {});
  socket.write(encodeLifeline(FRAME.attach, -1, 0, ticket));
  return { socket, frames };
}

const fails = (code: string, words: RegExp) => (error: unknown) => {
  assert.ok(LaunchError.is(error), String(error));
  assert.equal(error.code, code);
  assert.match(error.message, words);
  return true;
};

describe('joining', () => {
  it('gives everybody the whole list once all have come', async () => {
    const { join, coordinator } = await stage(3);
    const joined = await Promise.all([2, 0, 1].map(async (rank) => (await join(rank)).joined));
    for (const { header } of await Promise.all(joined)) {
      assert.deepEqual(
        (header['members'] as Member[]).map(({ rank }) => rank),
        [0, 1, 2],
      );
    }
    assert.equal(coordinator.hasJoined(2), true);
  });

  it('names the rank that never arrives, and who is there', async () => {
    const { join } = await stage(4);
    const [early, late] = [await join(0), await join(3, { timeoutMs: 60 })];
    const words = fails('LAUNCH_TIMEOUT', /2 of 4.*ranks 1, 2 never arrived.*present: 0, 3/);
    await Promise.all([early, late].map(({ joined }) => assert.rejects(joined, words)));
    await assert.rejects((await join(1)).joined, words);
  });

  it('refuses a second process of the same rank and names the first', async () => {
    const { join } = await stage(2);
    const first = await join(1, { pid: 11 });
    const second = await join(1, { pid: 22 });
    await assert.rejects(second.joined, fails('LAUNCH_DUPLICATE_RANK', /rank 1 \(pid 11 on box\).*pid 22/));
    first.store.close();
    await first.joined.catch(() => {});
  });

  it('refuses a rank that was told another size of the world', async () => {
    const { join } = await stage(2);
    const { joined } = await join(1, { size: 3 });
    await assert.rejects(joined, fails('LAUNCH_SIZE_MISMATCH', /3 ranks.*told 2.*WORLD_SIZE/));
  });

  it('refuses a rank outside the world', async () => {
    const { join } = await stage(2);
    const { joined } = await join(2);
    await assert.rejects(joined, fails('LAUNCH_ENVIRONMENT', /0 to 1/));
  });

  it('fails at once for those who wait when a rank dies before it joined', async () => {
    const { join, coordinator } = await stage(3);
    const [a, b] = [await join(0), await join(1)];
    const ends = Promise.allSettled([a.joined, b.joined]);
    coordinator.lost(2, 'was killed by SIGKILL');
    for (const end of await ends) {
      assert.equal(end.status, 'rejected');
      fails('LAUNCH_RANK_LOST', /rank 2 is lost: was killed by SIGKILL/)((end as PromiseRejectedResult).reason);
    }
  });
});

describe('barriers of the whole world', () => {
  it('fail by name when a rank is lost, waiting or called later; smaller ones go on', async () => {
    const { join, coordinator } = await stage(2);
    const [a, b] = [await join(0), await join(1)];
    await Promise.all([a.joined, b.joined]);
    const waiting = assert.rejects(
      a.store.barrier('x'),
      fails('LAUNCH_RANK_LOST', /rank 1 \(pid 101 on box\) is lost: exited with code 3/),
    );
    await a.store.get('x');
    coordinator.lost(1, 'exited with code 3');
    await waiting;
    await assert.rejects(a.store.barrier('y'), fails('LAUNCH_RANK_LOST', /rank 1/));
    await a.store.barrier('z', { count: 1 });
    // Should rank 1 still be there, it is told, and changes nothing any more.
    await assert.rejects(b.store.set('k', 'late'), fails('LAUNCH_RANK_LOST', /took this one for dead .*: exited with code 3/));
    assert.equal(await a.store.get('k'), undefined);
  });

  it('name the ranks that are missing when time is up', async () => {
    const { join } = await stage(3);
    const all = [await join(0), await join(1), await join(2)];
    await Promise.all(all.map(({ joined }) => joined));
    await assert.rejects(all[1].store.barrier('late', { timeoutMs: 50 }), fails('LAUNCH_TIMEOUT', /1 of 3.*Missing: ranks 0, 2/));
  });
});

describe('lifelines', () => {
  const heard = async (frames: { type: number; rank: number; text: string }[], type: number) => {
    const deadline = performance.now() + 10_000;
    for (;;) {
      const found = frames.find((frame) => frame.type === type);
      if (found) return found;
      assert.ok(performance.now() < deadline, `no frame of type ${type}`);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  };

  const world = async (options: Partial<CoordinatorOptions> = {}) => {
    const { join, coordinator } = await stage(2, options);
    const [a, b] = [await join(0), await join(1)];
    const [first, second] = (await Promise.all([a.joined, b.joined])).map(({ header }) => header);
    const lines = [
      await attach(coordinator.port, first['ticket'] as string),
      await attach(coordinator.port, second['ticket'] as string),
    ];
    return { lines, headers: [first, second], coordinator };
  };

  it('that end without a word are the loss of the rank', async () => {
    const { lines } = await world();
    lines[1].socket.end();
    const { rank, text } = await heard(lines[0].frames, FRAME.lost);
    assert.deepEqual([rank, text], [1, 'its connection closed: the process ended without a word']);
  });

  it('carry a goodbye to the others', async () => {
    const { lines } = await world();
    lines[0].socket.end(encodeLifeline(FRAME.leave, 0, 0));
    assert.equal((await heard(lines[1].frames, FRAME.left)).rank, 0);
    assert.ok(!lines[1].frames.some(({ type }) => type === FRAME.lost));
  });

  it('of another machine exchange heartbeats, and silence is the loss of the rank', async () => {
    const { lines, headers } = await world({ machine: 'another', heartbeatMs: 20, silenceMs: 1000 });
    assert.deepEqual([headers[0]['heartbeatMs'], headers[0]['silenceMs']], [20, 1000]);
    const alive = setInterval(() => lines[0].socket.write(encodeLifeline(FRAME.beat)), 20);
    await heard(lines[0].frames, FRAME.beat);
    const { rank, text } = await heard(lines[0].frames, FRAME.lost);
    clearInterval(alive);
    assert.equal(rank, 1);
    assert.match(text, /no word from its host for 1000 ms/);
    assert.equal((await heard(lines[1].frames, FRAME.lost)).rank, 1, 'whoever was silent hears of it, too');
  });

  it('are heard before they are judged, when it was the coordinator that stood still', async () => {
    const { lines } = await world({ machine: 'another', heartbeatMs: 20, silenceMs: 500 });
    await Promise.all(lines.map(({ frames }) => heard(frames, FRAME.beat)));
    for (const { socket } of lines) socket.write(encodeLifeline(FRAME.beat));
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 600); // the thread of the coordinator
    for (const { frames } of lines) frames.length = 0;
    for (const { frames } of lines) await heard(frames, FRAME.beat);
    assert.ok(lines.every(({ frames }) => frames.every(({ type }) => type === FRAME.beat)));
  });

  it('of this machine need none: a stopped process is not dead', async () => {
    const { headers } = await world({ machine: 'h', heartbeatMs: 20, silenceMs: 150 });
    assert.deepEqual([headers[0]['heartbeatMs'], headers[0]['silenceMs']], [0, 0]);
  });
});
