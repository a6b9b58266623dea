/** The kill rounds of test/launch, two hundred of them. */

import { test } from 'node:test';
import { killEverybody, killRounds } from '../launch/kill-rounds.js';
import { chooseSeed } from '../processes/harness.js';

test('two hundred random kills of ranks or launcher', { timeout: 3_600_000 }, async () => {
  const seed = chooseSeed();
  console.log(`VERBENA_SEED=${seed}`);
  console.log(JSON.stringify(await killRounds(seed, 200, 1000)));
});

test('launcher and all ranks killed in the same moment, forty times', { timeout: 3_600_000 }, async () => {
  const seed = chooseSeed();
  console.log(`VERBENA_SEED=${seed}`);
  await killEverybody(seed, 40);
});
