/** All Verbena devices of this user, as they look from outside their processes. */

import type { DeviceSnapshot } from '../../../observe/index.js';
import { type ContextView, readContexts } from '../../../verbs/providers/shm/inspect.js';

/** Snapshots of contexts. */
export function snapshots(contexts: readonly ContextView[]): DeviceSnapshot[] {
  return contexts.map((context) => ({
    provider: 'shm',
    pid: context.pid,
    name: context.name,
    key: context.id,
    segmentBytes: context.segmentBytes,
    queuePairs: context.queuePairs.map(({ qpNum, type, state, destQpNum, counters }) => ({
      qpNum,
      type,
      state,
      ...(type === 'RC' || type === 'UC' ? { destination: destQpNum } : {}),
      counters,
    })),
    completionQueues: context.completionQueues,
    counters: context.totals,
  }));
}

/** Reads them now. The processes need not answer, need not even be awake. */
export function findDevices(): DeviceSnapshot[] {
  return snapshots(readContexts()).sort((a, b) => a.pid - b.pid || a.key.localeCompare(b.key));
}
