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

/** Descriptor of the pipe to the launcher. */
const PIPE = 3;
const MAX_BYTES = 4096;

/** The line that the launcher writes first. Blocks; undefined when the launcher is gone. */
function readLine(): string | undefined {
  const buffer = Buffer.alloc(MAX_BYTES);
  let length = 0;
  while (!buffer.subarray(0, length).includes('\n')) {
    const n = readSync(PIPE, buffer, length, 1, null);
    if (n === 0 || length + n >= MAX_BYTES) return undefined;
    length += n;
  }
  return buffer.toString('utf8', 0, length);
}

if (isMainThread && process.env['VERBENA_LAUNCHER_PID'] === String(process.ppid)) {
  const line = readLine();
  if (line === undefined) process.exit(1);
  keepHandedOver(JSON.parse(line) as HandedOver);
  const errno = loadAddon().guardStart(PIPE);
  if (errno !== 0) throw new Error(`the guard against a lost launcher did not start: errno ${errno}`);
}
