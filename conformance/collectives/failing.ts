/** What goes wrong on purpose: calls that do not fit together, ranks that give up, groups that shrink and grow. */

import assert from 'node:assert/strict';
import { type CollectiveError, Communicator } from '../../src/collectives/index.js';
import { all, type Case } from './stage.js';

async function failure(run: () => Promise<unknown>): Promise<CollectiveError> {
  try {
    await run();
  } catch (error) {
    return error as CollectiveError;
  }
  throw new Error('nothing failed');
}

export const failingCases: Readonly<Record<string, Case>> = {
  async 'ranks that call different things all hear who called what and where, and go on'(stage) {
    await all(await stage.ranks(3), async (comm) => {
      const error = await failure(() => comm.allreduce(new Float32Array(comm.rank === 1 ? 4000 : 3000)));
      assert.equal(error.code, 'COLL_MISMATCH', error.stack);
      const [own, other] = comm.rank === 1 ? [4000, 3000] : [3000, 4000];
      assert.match(
        error.message,
        new RegExp(`^rank ${comm.rank} called allreduce\\(${own} x f32, sum.*rank \\d called allreduce\\(${other} x`),
      );
      assert.equal(error.message.split(/failing\.[jt]s:\d+:\d+/).length, 3, `two places: ${error.message}`);
      const kinds = await failure(async () =>
        comm.rank === 0 ? comm.broadcast(new Int32Array(9000)) : comm.allreduce(new Int32Array(9000)),
      );
      assert.equal(kinds.code, 'COLL_MISMATCH', kinds.stack);
      assert.match(kinds.message, /broadcast.*allreduce|allreduce.*broadcast/);
      assert.equal(comm.broken, undefined);
      const sum = Float64Array.of(1);
      await comm.allreduce(sum);
      assert.equal(sum[0], 3);
    });
  },

  async 'bad arguments are refused before anything happens'(stage) {
    const [comm] = await stage.ranks(1);
    const refused: (() => Promise<unknown>)[] = [
      () => comm.allreduce(new Uint16Array(3)),
      () => comm.allreduce(new Float32Array(3), 'bor'),
      () => comm.broadcast(new Float32Array(3), 7),
      () => comm.allgather(new Float32Array(3), { counts: [2] }),
      () => comm.scan(new Float32Array(3), 'avg' as 'sum'),
      () => comm.grow(0),
    ];
    for (const call of refused) assert.equal((await failure(call)).code, 'COLL_INVALID');
  },

  async 'a timeout ends the call at every rank and breaks the communicator'(stage) {
    const ranks = await stage.ranks(3);
    const data = new Float32Array(5000);
    const late = await failure(() => ranks[0].allreduce(data, 'sum', { timeoutMs: 100 }));
    assert.equal(late.code, 'COLL_TIMEOUT');
    for (const rank of ranks.slice(1)) {
      const error = await failure(() => rank.allreduce(new Float32Array(5000)));
      assert.equal(error.code, 'COLL_ABORTED', error.message);
      assert.equal(rank.broken, error);
    }
  },

  async 'a signal aborts the call with its reason, here and at the others'(stage) {
    const ranks = await stage.ranks(3);
    const controller = new AbortController();
    const own = failure(() => ranks[0].allreduce(new Float32Array(5000), 'sum', { signal: controller.signal }));
    const waiting = failure(() => ranks[1].allreduce(new Float32Array(5000)));
    controller.abort(new Error('changed my mind'));
    assert.match((await own).message, /changed my mind/);
    assert.equal((await waiting).code, 'COLL_ABORTED');
    assert.equal((await failure(() => ranks[2].barrier())).code, 'COLL_ABORTED');
  },

  async 'abort ends everybody’s calls; shrink makes a new communicator of the same ranks'(stage) {
    const ranks = await stage.ranks(3);
    await all(ranks, (comm) => comm.barrier());
    const waiting = failure(() => ranks[1].barrier());
    ranks[0].abort();
    assert.equal((await waiting).code, 'COLL_ABORTED');
    await all(ranks, async (comm) => {
      const next = await comm.shrink();
      assert.deepEqual(next.members, [0, 1, 2]);
      assert.equal(next.lastCompleted, 1);
      const sum = Float64Array.of(1);
      await next.allreduce(sum);
      assert.equal(sum[0], 3);
      await next.barrier();
      next.close();
    });
  },

  async 'a closed communicator says so'(stage) {
    const [comm] = await stage.ranks(1);
    comm.close();
    assert.equal((await failure(() => comm.barrier())).code, 'COLL_CLOSED');
  },

  async 'a communicator grows by those who join'(stage) {
    const ranks = await stage.ranks(2);
    const { exchange } = stage;
    const { key } = ranks[0];
    const joined = [2, 3].map(async (at) =>
      Communicator.join({ exchange, key, worker: await stage.worker(at), timeoutMs: 20_000 }),
    );
    const grown = await Promise.all([...ranks.map((comm) => comm.grow(2)), ...joined]);
    assert.deepEqual(grown.map(({ rank }) => rank).sort(), [0, 1, 2, 3]);
    assert.deepEqual(
      grown.slice(0, 2).map(({ rank }) => rank),
      [0, 1],
    );
    await all(grown, async (comm) => {
      const sum = Float64Array.of(comm.rank);
      await comm.allreduce(sum);
      assert.equal(sum[0], 6);
      await comm.barrier();
    });
    // The smaller one is still there.
    await all(ranks, (comm) => comm.barrier());
    for (const comm of grown) comm.close();
  },
};
