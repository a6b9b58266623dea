/** A few random rounds of messaging; test/soak plays them for minutes. */

import { test } from 'node:test';
import { chooseSeed } from '../processes/harness.js';
import { randomRounds } from './random-rounds.js';

test('random messages of every kind between three workers arrive as they were sent', { timeout: 120_000 }, async () => {
  const seed = chooseSeed();
  console.log(`VERBENA_SEED=${seed}`);
  await randomRounds(seed, { rounds: 6, budgetMs: 8000 });
});
