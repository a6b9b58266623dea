/** The other half: what a scenario imports. */

import { writeSync } from 'node:fs';
import { FileStore } from '../../src/launch/store/file-store.js';
import type { RankInput } from './ranks.js';

export function say(fields: Record<string, unknown>): void {
  writeSync(1, `${JSON.stringify(fields)}\n`);
}

/** Runs the scenario; a failure ends the process with code 1 and its stack on stderr. */
export function asRank(body: (input: RankInput & { exchange: FileStore }) => Promise<void>): void {
  const input = JSON.parse(process.argv[2]) as RankInput;
  const exchange = new FileStore({ directory: input.directory, size: input.size });
  body({ ...input, exchange }).then(
    () => exchange.close(),
    (error: unknown) => {
      console.error(error);
      process.exit(1);
    },
  );
}
