/**
 * The conformance suite of shuffle managers: what every one promises, as tests of node:test. A manager that passes may carry any job.
 *
 * ```ts
 * import { openContext } from 'verbena/messaging';
 * import { shuffleConformance } from 'verbena/conformance/shuffle';
 * import { myShuffle } from './my-shuffle.js';
 *
 * shuffleConformance({ name: 'mine', manager: myShuffle, open: () => openContext({ device: 'shm' }) });
 * ```
 */

import { describe, it } from 'node:test';
import { CASES } from './shuffle/cases.js';
import { ShuffleStage, type ShuffleSuite } from './shuffle/stage.js';

export type { ShuffleSuite } from './shuffle/stage.js';

/** Registers the whole suite for one manager. Call it at the top of a test file. */
export function shuffleConformance(suite: ShuffleSuite): void {
  describe(`shuffle conformance: ${suite.name}`, () => {
    for (const [sentence, { options, run }] of Object.entries(CASES)) {
      const skip = suite.skip?.find(({ tests }) => tests.includes(sentence));
      it(sentence, { timeout: 60_000, skip: skip?.reason ?? false }, async () => {
        const stage = await ShuffleStage.open(suite, {
          ranks: 2,
          memoryBytes: 64 << 20,
          diskBytes: 64 << 20,
          windowBytes: 1 << 20,
          ...options,
        });
        try {
          await run(stage);
        } finally {
          await stage.close();
        }
      });
    }
  });
}
