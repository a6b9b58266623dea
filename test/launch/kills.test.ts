import { test } from 'node:test';
import { chooseSeed } from '../processes/harness.js';
import { killRounds } from './kill-rounds.js';

test('twenty random kills of ranks or launcher: the right rank is named in time and nothing is left', {
  timeout: 280_000,
}, async (context) => {
  const seed = chooseSeed();
  context.diagnostic(`VERBENA_SEED=${seed}`);
  const totals = await killRounds(seed, 20);
  context.diagnostic(JSON.stringify(totals));
});
