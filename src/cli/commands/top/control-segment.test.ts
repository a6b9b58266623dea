import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { QP_STATES, QP_TYPES } from '../../../verbs/index.js';
import * as layout from '../../../verbs/providers/shm/layout.js';
import { parseControlSegment } from './control-segment.js';

/** A segment as a device writes it: two queue pairs, a free entry between them. */
function segment(): ArrayBuffer {
  const memory = new ArrayBuffer(layout.CONTROL_BYTES);
  const words = new Int32Array(memory);
  const floats = new Float64Array(memory);
  words[layout.H_MAGIC] = layout.MAGIC;
  words[layout.H_VERSION] = layout.VERSION;
  words[layout.H_STATE] = layout.STATE_LIVE;
  words[layout.H_PID] = 4711;
  words[layout.H_QP_HIGH] = 4;
  words[layout.H_NAME_LENGTH] = 5;
  new Uint8Array(memory).set(new TextEncoder().encode('a dev'), layout.NAME_BYTE);
  floats[layout.H_RETIRED_F64 + layout.C_OPERATIONS] = 100;
  floats[layout.H_SEGMENT_BYTES_F64] = 65536;
  const pair = (qpNum: number, type: string, state: string, operations: number) => {
    const at = layout.QPS + qpNum * layout.QP_WORDS;
    words[at + layout.QP_STATE] = (3 << 4) | (QP_STATES.indexOf(state as never) + 1);
    words[at + layout.QP_TYPE] = QP_TYPES.indexOf(type as never);
    words[at + layout.QP_DEST] = 9;
    floats[(at >> 1) + layout.QP_COUNTERS_F64 + layout.C_OPERATIONS] = operations;
    floats[(at >> 1) + layout.QP_COUNTERS_F64 + layout.C_BYTES] = 8 * operations;
  };
  pair(1, 'RC', 'RTS', 10);
  pair(3, 'UD', 'ERR', 5);
  return memory;
}

const reader = (memory: ArrayBuffer) => (offset: number, length: number) => memory.slice(offset, offset + length);

describe('A control segment', () => {
  it('is read from outside: name, queue pairs, totals with the closed ones', () => {
    const device = parseControlSegment(reader(segment()));
    assert.equal(device?.pid, 4711);
    assert.equal(device?.name, 'a dev');
    assert.equal(device?.live, true);
    assert.equal(device?.segmentBytes, 65536);
    assert.equal(device?.counters.operations, 115);
    assert.equal(device?.counters.bytes, 120);
    assert.deepEqual(
      device?.queuePairs.map(({ qpNum, type, state, destination }) => [qpNum, type, state, destination]),
      [
        [1, 'RC', 'RTS', 9],
        [3, 'UD', 'ERR', undefined],
      ],
    );
  });

  it('of another version, or none at all, is left alone', () => {
    const other = segment();
    new Int32Array(other)[layout.H_VERSION] = layout.VERSION + 1;
    assert.equal(parseControlSegment(reader(other)), undefined);
    assert.equal(parseControlSegment(reader(new ArrayBuffer(layout.CONTROL_BYTES))), undefined);
  });
});
