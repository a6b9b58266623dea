/** All Verbena devices of this user, as they look from outside their processes. */

import { ZERO_COUNTERS } from '../../../observe/counters.js';
import type { DeviceSnapshot } from '../../../observe/index.js';
import { type RoceStatus, readRoceDevices } from '../../../verbs/providers/roce/status-page.js';
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

/** Snapshots of RoCE devices. Their queue pairs are known by number only. */
function roceSnapshots(devices: readonly RoceStatus[]): DeviceSnapshot[] {
  return devices.map(({ pid, name, where, counters }) => ({
    provider: 'roce',
    pid,
    name: `${name} (roce ${where})`,
    key: `roce ${pid} ${where}`,
    segmentBytes: 0,
    queuePairs: [],
    completionQueues: [],
    transport: { ...counters },
    counters: {
      ...ZERO_COUNTERS,
      operations: counters.operations,
      bytes: counters.bytes,
      bytesCopied: counters.bytesSent + counters.bytesReceived,
      systemCalls: counters.systemCalls,
      errors: counters.errors,
    },
  }));
}

/** Reads them now. The processes need not answer, need not even be awake. */
export function findDevices(): DeviceSnapshot[] {
  return [...snapshots(readContexts()), ...roceSnapshots(readRoceDevices())].sort(
    (a, b) => a.pid - b.pid || a.key.localeCompare(b.key),
  );
}
