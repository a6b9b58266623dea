/** Many rounds of training whose ranks are killed or stopped at random moments, with and without newcomers, on shared memory and over messages. */

import { describe, it } from 'node:test';
import { survive } from '../train/survival.js';

const SEED = Number(process.env['VERBENA_SEED'] ?? Date.now() % 1_000_000);
const ROUNDS = 40;

describe(`training with killed ranks, seed ${SEED}`, () => {
  it(`ends where an undisturbed run ends, ${ROUNDS} times`, async (t) => {
    let lost = 0;
    let joined = 0;
    for (let round = 0; round < ROUNDS; round++) {
      const size = 2 + (round % 3);
      const kills = 1 + (round % (size - 1));
      const over = ({ 3: 'shm', 7: 'roce' } as Record<number, string>)[round % 8];
      const stoppedMs = round % 10 === 4 ? 1500 : undefined;
      const result = await survive(SEED + round, size, { kills, replace: round % 2 === 1, over, stoppedMs });
      lost += result.lost;
      joined += result.joined;
    }
    t.diagnostic(`${lost} losses, ${joined} joins`);
  });
});
