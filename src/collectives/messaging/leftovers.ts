/**
 * Messages of communicators that are over. A call that ended in the middle leaves messages that nobody takes any more; they would stay in the worker's store of unexpected
 * messages, which is bounded. So they are taken and thrown away: when the communicator closes, and whenever another is made or closed, because some come late.
 */

import type { Worker } from '../../messaging/index.js';

interface Grave {
  readonly context: number;
  readonly tagHi: number;
}

const MOST_GRAVES = 256;
const graves = new WeakMap<Worker, Grave[]>();

/** No message of this communicator is wanted any more. */
export function bury(worker: Worker, context: number, tagHi: number): void {
  const known = graves.get(worker) ?? [];
  known.push({ context, tagHi });
  if (known.length > MOST_GRAVES) known.shift();
  graves.set(worker, known);
  exhume(worker);
}

/** Throws away what came for communicators that are over. */
export function exhume(worker: Worker): void {
  for (const { context, tagHi } of graves.get(worker) ?? []) {
    if (worker.closed) return;
    for (;;) {
      const found = worker.probeMatched({ hi: tagHi, lo: 0 }, { mask: { hi: -1, lo: 0 } }, context);
      if (found === undefined) break;
      found.recv(new Uint8Array(found.length)).catch(() => undefined);
    }
  }
}
