import { test } from 'node:test';
import { chooseSeed } from '../processes/harness.js';
import { killEverybody, killRounds } from './kill-rounds.js';

/** A second on a quiet machine (test/soak); here other tests may hold the processors. */
const BOUND_MS = 5000;

test('twenty random kills of ranks or launcher: the right rank is named in time and nothing is left', {
  timeout: 280_000,
}, async (context) => {
  const seed = chooseSeed();
  context.diagnostic(`VERBENA_SEED=${seed}`);
  const totals = await killRounds(seed, 20, BOUND_MS);
  context.diagnostic(JSON.stringify(totals));
});

test('launcher and all ranks killed in the same moment leave nothing', { timeout: 180_000 }, async (context) => {
  const seed = chooseSeed();
  context.diagnostic(`VERBENA_SEED=${seed}`);
  await killEverybody(seed, 4);
});
