/** The suite of the collectives: what a communicator promises, on every executor and provider. All ranks live in one process and use the asynchronous forms. */

import { describe, test } from 'node:test';
import { algorithmCases } from './collectives/algorithms.js';
import { failingCases } from './collectives/failing.js';
import { operationCases } from './collectives/operations.js';
import { type Case, type CollectivesFactory, Stage } from './collectives/stage.js';

const CASES: Readonly<Record<string, Case>> = { ...algorithmCases, ...operationCases, ...failingCases };

/** Registers the suite as tests of node:test: every collective, type and failure that an executor must carry. What cannot hold is skipped with its reason. */
export function collectivesConformance(factory: CollectivesFactory): void {
  describe(`collectives on ${factory.name}`, { concurrency: 1 }, () => {
    for (const [name, body] of Object.entries(CASES)) {
      const reason = factory.skip?.find(({ tests }) => tests.includes(name))?.reason;
      test(name, { timeout: 120_000, ...(reason === undefined ? {} : { skip: reason }) }, async () => {
        const stage = new Stage(factory);
        try {
          await body(stage, factory);
        } finally {
          await stage.close();
        }
      });
    }
  });
}
