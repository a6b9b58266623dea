/** Many parameter servers killed at random moments: nothing is lost that was granted, and nothing applied twice. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { killServer } from '../train/server-rounds.js';

const SEED = Number(process.env['VERBENA_SEED'] ?? Date.now() % 1_000_000);
const ROUNDS = Number(process.env['VERBENA_ROUNDS'] ?? 60);

describe(`killed parameter servers, seed ${SEED}`, () => {
  it(`are replaced by their replicas, ${ROUNDS} times`, async (test) => {
    let killed = 0;
    for (let round = 0; round < ROUNDS; round++) {
      const result = await killServer(SEED + round, round % 2 === 0 ? 'sync' : 'async');
      if (result.killed) killed++;
    }
    test.diagnostic(`${killed} of ${ROUNDS} kills came before the last step`);
    assert.ok(killed >= ROUNDS / 2, `only ${killed} kills came in time`);
  });
});
