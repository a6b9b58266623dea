/** Peers that die or stop at any moment: the survivor learns it within a second while it only polls, and nothing is left behind. */

import assert from 'node:assert/strict';
import { faultRounds } from './fault-rounds.js';
import { chooseSeed, processTest } from './harness.js';
import { holdings } from './holdings.js';

processTest('a killed peer process is noticed within a second, again and again', async (hand) => {
  const seed = chooseSeed();
  hand.context.diagnostic(`VERBENA_SEED=${seed}`);
  const { rounds, slowestMs } = await faultRounds(hand, seed, { rounds: 60, least: 10, budgetMs: 20_000, faults: ['kill'] });
  hand.context.diagnostic(`${rounds} rounds, the slowest notice took ${slowestMs.toFixed(0)} ms`);
});

processTest('a stopped peer process is noticed, traffic goes on when it continues, and then it is killed', async (hand) => {
  const seed = chooseSeed();
  hand.context.diagnostic(`VERBENA_SEED=${seed}`);
  await faultRounds(hand, seed, { rounds: 15, least: 3, budgetMs: 12_000, faults: ['stop'] });
});

processTest('a terminated worker thread is noticed within a second, and leaves nothing behind in its process', async (hand) => {
  const seed = chooseSeed();
  hand.context.diagnostic(`VERBENA_SEED=${seed}`);
  const before = await holdings();
  const { rounds } = await faultRounds(hand, seed, { rounds: 25, least: 5, budgetMs: 8000, faults: ['terminate'] });
  const after = await holdings();
  assert.ok(after.mappings <= before.mappings + 3, `mappings ${before.mappings} to ${after.mappings} in ${rounds} rounds`);
  assert.ok(after.descriptors <= before.descriptors + 3, `descriptors ${before.descriptors} to ${after.descriptors}`);
});
