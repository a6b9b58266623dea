/** The random rounds of test/messaging on UCX, for five minutes. */

import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { randomRounds, UCX_ENGINES } from '../messaging/random-rounds.js';
import { chooseSeed } from '../processes/harness.js';

const skip = !existsSync('/usr/include/ucp/api/ucp.h') && 'needs apt-get install libucx-dev';

test('random messages of every kind on UCX, for five minutes', { skip, timeout: 600_000 }, async () => {
  const seed = chooseSeed();
  console.log(`VERBENA_SEED=${seed}`);
  console.log(`${await randomRounds(seed, { rounds: 100_000, budgetMs: 300_000 }, UCX_ENGINES)} rounds`);
});
