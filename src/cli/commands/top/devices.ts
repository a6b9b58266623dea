/** All Verbena devices of this user, as they look from outside their processes. */

import type { DeviceSnapshot } from '../../../observe/index.js';
import { type ContextView, readContexts } from '../../../verbs/providers/shm/inspect.js';

/** Snapshots of contexts. A process may have several with one name: they are told apart by their order, which is that of their making. */
export function snapshots(contexts: readonly ContextView[]): DeviceSnapshot[] {
  const seen = new Map<string, number>();
  return contexts.map((context) => {
    const base = `${context.pid}.${context.threadId}.${context.name}`;
    const ordinal = seen.get(base) ?? 0;
    seen.set(base, ordinal + 1);
    return {
      provider: 'shm',
      pid: context.pid,
      name: context.name,
      key: `${base}.${ordinal}`,
      segmentBytes: context.segmentBytes,
      queuePairs: context.queuePairs.map(({ qpNum, type, state, destQpNum, counters }) => ({
        qpNum,
        type,
        state,
        ...(type === 'RC' || type === 'UC' ? { destination: destQpNum } : {}),
        counters,
      })),
      counters: context.totals,
    };
  });
}

/** Reads them now. The processes need not answer, need not even be awake. */
export function findDevices(): DeviceSnapshot[] {
  return snapshots(readContexts()).sort((a, b) => a.pid - b.pid || a.key.localeCompare(b.key));
}
