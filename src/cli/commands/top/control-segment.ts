/**
 * Reads the control segment of another process's shm device through /proc/PID/fd: a plain read of a file, so the owner need not answer, need not
 * even be awake. Numbers may be a few operations apart from each other; each by itself is whole.
 */

import { closeSync, openSync, readdirSync, readlinkSync, readSync, statSync } from 'node:fs';
import { addCounters, type CounterTotals, type DeviceSnapshot, type QueuePairSnapshot } from '../../../observe/index.js';
import { QP_STATES, QP_TYPES } from '../../../verbs/index.js';
import * as layout from '../../../verbs/providers/shm/layout.js';

const HEADER_BYTES = 4096;
const WORD = 4;

function counters(floats: Float64Array, at: number): CounterTotals {
  const entries = layout.COUNTER_NAMES.map((name, i) => [name, floats[at + i]]);
  return Object.fromEntries(entries) as unknown as CounterTotals;
}

/** Queue pairs out of the bytes of the table. */
function queuePairs(bytes: ArrayBuffer, count: number): QueuePairSnapshot[] {
  const words = new Int32Array(bytes);
  const floats = new Float64Array(bytes);
  const result: QueuePairSnapshot[] = [];
  for (let i = 0; i < count; i++) {
    const at = i * layout.QP_WORDS;
    const state = words[at + layout.QP_STATE] & 15;
    if (state === 0) continue;
    const type = QP_TYPES[words[at + layout.QP_TYPE]] ?? '?';
    const connected = type === 'RC' || type === 'UC';
    result.push({
      qpNum: i,
      type,
      state: QP_STATES[state - 1] ?? '?',
      ...(connected ? { destination: words[at + layout.QP_DEST] } : {}),
      counters: counters(floats, (at >> 1) + layout.QP_COUNTERS_F64),
    });
  }
  return result;
}

/** A device from its segment, or undefined when the file is none, or of another version. `read` fills a buffer from an offset. */
export function parseControlSegment(read: (offset: number, length: number) => ArrayBuffer): DeviceSnapshot | undefined {
  const header = read(0, HEADER_BYTES);
  const words = new Int32Array(header);
  const floats = new Float64Array(header);
  if (words[layout.H_MAGIC] !== layout.MAGIC || words[layout.H_VERSION] !== layout.VERSION) return undefined;
  const count = Math.min(words[layout.H_QP_HIGH], layout.QP_MAX);
  const qps = queuePairs(read(layout.QPS * WORD, count * layout.QP_WORDS * WORD), count);
  const name = Buffer.from(header, layout.NAME_BYTE, Math.min(words[layout.H_NAME_LENGTH], layout.NAME_MAX)).toString();
  const retired = counters(floats, layout.H_RETIRED_F64);
  return {
    provider: 'shm',
    pid: words[layout.H_PID],
    name,
    live: words[layout.H_STATE] === layout.STATE_LIVE,
    key: `${words[layout.H_PID]}.${words[layout.H_ID_HI] >>> 0}.${words[layout.H_ID_LO] >>> 0}`,
    segmentBytes: floats[layout.H_SEGMENT_BYTES_F64],
    queuePairs: qps,
    counters: qps.reduce((sum, qp) => addCounters(sum, qp.counters), retired),
  };
}

function readSegment(path: string): DeviceSnapshot | undefined {
  const fd = openSync(path, 'r');
  try {
    return parseControlSegment((offset, length) => {
      const bytes = new Uint8Array(length);
      readSync(fd, bytes, 0, length, offset);
      return bytes.buffer;
    });
  } finally {
    closeSync(fd);
  }
}

/** Paths of the control segments that a process has open, its peers' included. */
function segmentsOf(pid: string): string[] {
  const folder = `/proc/${pid}/fd`;
  return readdirSync(folder)
    .map((fd) => `${folder}/${fd}`)
    .filter((path) => {
      try {
        return readlinkSync(path).startsWith(`/memfd:${layout.CONTROL_NAME}`);
      } catch {
        return false;
      }
    });
}

/** All shm devices of this user's processes on this machine, each once, live ones only. */
export function findDevices(uid = process.getuid?.() ?? 0): DeviceSnapshot[] {
  const found = new Map<string, DeviceSnapshot>();
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      if (statSync(`/proc/${pid}`).uid !== uid) continue;
      for (const path of segmentsOf(pid)) {
        const device = readSegment(path);
        // A peer may still hold the segment of a process that is gone: only the owner's own descriptor counts.
        if (device?.live && device.pid === Number(pid)) found.set(device.key, device);
      }
    } catch {
      // the process ended meanwhile, or is somebody else's
    }
  }
  return [...found.values()].sort((a, b) => a.pid - b.pid || a.key.localeCompare(b.key));
}
