/** The random rounds of test/messaging, for ten minutes. */

import { test } from 'node:test';
import { randomRounds } from '../messaging/random-rounds.js';
import { chooseSeed } from '../processes/harness.js';

test('random messages of every kind, for ten minutes', { timeout: 1_200_000 }, async () => {
  const seed = chooseSeed();
  console.log(`VERBENA_SEED=${seed}`);
  console.log(`${await randomRounds(seed, { rounds: 100_000, budgetMs: 600_000 })} rounds`);
});
