/** Collectives under seeded plans of faults. The seed is printed; VERBENA_SEED replays it. `test/soak/collectives.test.ts` tries more of them. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CollectiveError, Communicator } from '../../src/collectives/index.js';
import type { FaultPlan } from '../../src/verbs/providers/sim/fault-plan.js';
import { play, type Rules, type Story } from './fault-plan-run.js';

const SEED = Number(process.env['VERBENA_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
const SIZE = 3;

const LOSSY: FaultPlan['rules'] = [
  { kind: 'drop', perMillion: 30_000 },
  { kind: 'duplicate', perMillion: 10_000 },
  { kind: 'delay', perMillion: 20_000, delayNs: 20_000 },
  { kind: 'corrupt', perMillion: 15_000 },
];

/** A few collectives, and what the network did meanwhile. */
function sums(seed: number, algorithms: string): Promise<Story> {
  return play(
    seed,
    () => LOSSY,
    SIZE,
    { algorithms },
    async ({ ranks, story, during }) => {
      const data = ranks.map(({ rank }) => Float64Array.from({ length: 3001 }, (_, i) => rank + i));
      await during(Promise.all(ranks.map((comm) => comm.allreduce(data[comm.rank], 'avg'))));
      for (const vector of data) for (let i = 0; i < vector.length; i++) assert.equal(vector[i], i + 1);
      await during(Promise.all(ranks.map((comm) => comm.broadcast(data[comm.rank], 2))));
      await during(Promise.all(ranks.map((comm) => comm.barrier())));
      return story();
    },
  );
}

for (const algorithms of ['allreduce:ring;broadcast:binomial', 'allreduce:halving-doubling;broadcast:scatter-all-gather']) {
  test(`packets are lost, doubled, delayed and damaged, and ${algorithms} are right; the seed replays every packet`, {
    timeout: 60_000,
  }, async (t) => {
    t.diagnostic(`VERBENA_SEED=${SEED}`);
    const first = await sums(SEED, algorithms);
    const again = await sums(SEED, algorithms);
    assert.deepEqual(again, first, `VERBENA_SEED=${SEED}`);
    assert.ok(first.lost + first.damaged > 0, 'the plan did something');
  });
}

const AFTER_NS = SEED % 50_000;
const AFTER_PACKETS = SEED % 40;
const ENDS: Readonly<Record<string, Rules>> = {
  'cut off': ({ ns }) => [{ kind: 'partition', devices: [1], afterNs: ns + AFTER_NS }],
  killed: ({ packets }) => [{ kind: 'kill', device: 1, afterPackets: packets + AFTER_PACKETS }],
};

async function failure(comm: Communicator): Promise<CollectiveError> {
  try {
    for (;;) await comm.allreduce(new Float64Array(5000));
  } catch (error) {
    return error as CollectiveError;
  }
}

for (const [what, rules] of Object.entries(ENDS)) {
  test(`a rank that is ${what} by the plan is named to the others, who shrink and go on`, { timeout: 60_000 }, async (t) => {
    t.diagnostic(`VERBENA_SEED=${SEED}`);
    const run = () =>
      play(SEED, rules, SIZE, { keepaliveMs: 1000 }, async ({ ranks, during }) => {
        const living = ranks.filter(({ rank }) => rank !== 1);
        void failure(ranks[1]); // a rank that is cut off ends too, a dead one does nothing any more
        const errors = await during(Promise.all(living.map(failure)));
        for (const error of errors) assert.equal(error.code, 'COLL_PEER_LOST', error.message);
        const smaller = await during(Promise.all(living.map((comm) => comm.shrink({ timeoutMs: 20_000 }))));
        for (const comm of smaller) assert.deepEqual(comm.members, [0, 2]);
        const sum = smaller.map(() => Float64Array.of(1));
        await during(Promise.all(smaller.map((comm, i) => comm.allreduce(sum[i]))));
        assert.deepEqual(
          sum.map(([value]) => value),
          [2, 2],
        );
        for (const comm of smaller) comm.close();
        return errors.map(({ message }) => message);
      });
    const named = await run();
    for (const message of named) assert.match(message, /rank 1 is lost/);
    assert.deepEqual(await run(), named, `VERBENA_SEED=${SEED}`);
  });
}
