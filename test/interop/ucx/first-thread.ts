/** Opens UCX in a thread, before anybody else of the process, and prints whether signals of faults (ILL, BUS, FPE) are caught then that were not before. */

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { isMainThread, Worker } from 'node:worker_threads';
import { openContext } from '../../../src/messaging/index.js';

const FAULTS = 0b1100_1000;
const caught = (): number =>
  Number(`0x${/^SigCgt:\s*\w*(\w{8})$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]}`) & FAULTS;

if (isMainThread) {
  const before = caught();
  new Worker(fileURLToPath(import.meta.url)).once('exit', (code) => console.log(`exit ${code}, taken ${caught() ^ before}`));
} else {
  await using context = await openContext({ engine: 'ucx' });
  await context.createWorker();
}
