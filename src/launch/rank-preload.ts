/**
 * Runs in every rank of `verbena run` before the script (`node --import`): reads the job's secret from the pipe to the launcher, and starts the
 * guard that ends this process, its group included, when the launcher is gone. From here on even kill -9 of the launcher leaves no rank behind,
 * whatever the script does.
 *
 * Worker threads and children of the script inherit `--import`; they are not ranks, and nothing happens in them.
 */

import { readSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';
import { loadAddon } from '../native/load.js';
import { type HandedOver, keepHandedOver } from './handed-over.js';

/** Names the descriptor of the pipe to the launcher. Taken out of the environment, so that children of the script do not take theirs for it. */
const VARIABLE = 'VERBENA_LAUNCHER_PIPE';
const MAX_BYTES = 4096;

/** The line that the launcher writes first. Blocks; undefined when the launcher is gone. */
function readLine(pipe: number): string | undefined {
  const buffer = Buffer.alloc(MAX_BYTES);
  let length = 0;
  while (!buffer.subarray(0, length).includes('\n')) {
    const n = readSync(pipe, buffer, length, 1, null);
    if (n === 0 || length + n >= MAX_BYTES) return undefined;
    length += n;
  }
  return buffer.toString('utf8', 0, length);
}

if (isMainThread && process.env[VARIABLE] !== undefined) {
  const pipe = Number(process.env[VARIABLE]);
  delete process.env[VARIABLE];
  const line = readLine(pipe);
  if (line === undefined) process.exit(1);
  keepHandedOver(JSON.parse(line) as HandedOver);
  const errno = loadAddon().guardStart(pipe);
  if (errno !== 0) throw new Error(`the guard against a lost launcher did not start: errno ${errno}`);
}
