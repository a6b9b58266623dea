/** Training outlives its ranks: whoever is killed, whenever, the rest ends where an undisturbed run ends. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { survive } from './survival.js';

const SEED = Number(process.env['VERBENA_SEED'] ?? Date.now() % 1_000_000);

describe(`killed ranks, seed ${SEED}`, () => {
  it('the others go on and end with the parameters of an undisturbed run', async (t) => {
    for (const kills of [1, 2]) {
      const { lost } = await survive(SEED + kills, 3, { kills });
      t.diagnostic(`${kills} of 3 killed, ${lost} losses noticed`);
    }
  });

  it('a rank that stays stopped is left out, and cannot disturb the others when it goes on', async () => {
    for (const over of [undefined, 'shm']) {
      const { lost } = await survive(SEED + 20, 3, { kills: 1, stoppedMs: 1500, over });
      assert.equal(lost, 1);
    }
  });

  it('newcomers take their place at a step boundary, with the state of the others', async (t) => {
    for (const over of [undefined, 'shm']) {
      const { lost, joined } = await survive(SEED + 10, 2, { kills: 1, replace: true, over });
      t.diagnostic(`${over === undefined ? 'shared memory' : `messages over ${over}`}: ${lost} lost, ${joined} joined`);
      assert.equal(joined, 1);
    }
  });
});
