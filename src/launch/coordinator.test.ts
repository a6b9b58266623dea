import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { Coordinator } from './coordinator.js';
import { LaunchError } from './errors.js';
import type { Member } from './member.js';
import { makeSecret } from './store/authentication.js';
import { TcpStore } from './store/tcp-store.js';

const opened: { close(): void }[] = [];
after(() => {
  for (const one of opened) one.close();
});

async function stage(size: number) {
  const secret = makeSecret();
  const coordinator = await Coordinator.listen({ size, secret, version: '1', log: () => {} });
  opened.push(coordinator);
  const join = async (rank: number, given: { size?: number; pid?: number; timeoutMs?: number } = {}) => {
    const store = await TcpStore.connect({ host: '127.0.0.1', port: coordinator.port, secret, version: '1', size });
    opened.push(store);
    const member: Member = {
      rank,
      host: { id: 'h', machine: 'h', name: 'box' },
      pid: given.pid ?? 100 + rank,
      startTime: 1,
      numa: 0,
      nics: [],
      addresses: [],
      node: 'v20',
    };
    const joined = store.call({ op: 'join', size: given.size ?? size, member }, undefined, given.timeoutMs ?? 20_000);
    return { store, joined };
  };
  return { coordinator, join };
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
    const early = await join(0);
    const late = [await join(3, { timeoutMs: 60 })];
    await assert.rejects(late[0].joined, fails('LAUNCH_TIMEOUT', /2 of 4.*ranks 1, 2 never arrived.*present: 0, 3/));
    early.store.close();
    await early.joined.catch(() => {});
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
  });

  it('name the ranks that are missing when time is up', async () => {
    const { join } = await stage(3);
    const all = [await join(0), await join(1), await join(2)];
    await Promise.all(all.map(({ joined }) => joined));
    await assert.rejects(all[1].store.barrier('late', { timeoutMs: 50 }), fails('LAUNCH_TIMEOUT', /1 of 3.*Missing: ranks 0, 2/));
  });
});
