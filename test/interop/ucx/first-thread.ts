/** Opens UCX in a thread, before anybody else of the process, and prints which of the signals of faults (ILL, BUS, FPE) are caught then, as bits. */

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { isMainThread, Worker } from 'node:worker_threads';
import { openContext } from '../../../src/messaging/index.js';

const FAULTS = 0b1100_1000;

if (isMainThread) {
  new Worker(fileURLToPath(import.meta.url)).once('exit', (code) => {
    const caught = /^SigCgt:\s*\w*(\w{8})$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? 'ffffffff';
    console.log(`exit ${code}, caught ${Number(`0x${caught}`) & FAULTS}`);
  });
} else {
  await using context = await openContext({ engine: 'ucx' });
  await context.createWorker();
}
