/**
 * The compact form of one rank's program: what executors run, in JavaScript and in C.
 *
 *   Int32Array
 *   ┌ header ────────────────────┬ lane table ────────────────────┬ lane 0 records ┬ lane 1 records ┬ ...
 *   │ magic  lanes  chunks  size │ start₀ length₀ start₁ length₁  │ 8 words each   │ 8 words each   │
 *   └────────────────────────────┴────────────────────────────────┴────────────────┴────────────────┘
 *   record (32 bytes, half a cache line)
 *     0 opcode | FINISH       1 step         2 peer (after: lane)    3 channel
 *     4 buffer | other << 16  5 first        6 count                 7 otherFirst
 *
 * `start` is a word index into the array, `length` a number of records. An executor keeps two words per lane: the record it is at and the number of
 * operations completed (`after` records are not counted); an `after` passes when completed[peer] >= count. Nothing else is needed
 * to run a program besides the buffers' windows (`windowOf`) and the split; and nothing in it depends on element counts, so it is encoded once per (algorithm, size, root, rank) and kept.
 */

import { instruction } from './instruction.js';
import type { Instruction, Operation, Schedule } from './schedule.js';

/** First word: 'VSC' and the version of this layout. */
export const ENCODING_MAGIC = 0x56534301;
/** Words before the records of an encoded program. */
export const HEADER_WORDS = 4;
/** Words of one encoded instruction. */
export const RECORD_WORDS = 8;
/** Bit in word 0: the reduction that completes its chunks. */
export const FINISH = 1 << 8;

/** Operation to opcode. The numbers are shared with C; append only. */
export const OPCODES: Readonly<Record<Operation, number>> = {
  send: 1,
  receive: 2,
  receiveReduce: 3,
  copy: 4,
  reduce: 5,
  read: 6,
  readReduce: 7,
  write: 8,
  signal: 9,
  wait: 10,
  after: 11,
  multicast: 12,
};

const OPERATIONS: readonly Operation[] = Object.entries(OPCODES).reduce<Operation[]>((list, [op, code]) => {
  list[code] = op as Operation;
  return list;
}, []);

/** Encodes the program of one rank. @throws RangeError when a field does not fit (channel > 255, buffer > 255). */
export function encodeProgram(schedule: Schedule, rank: number): Int32Array {
  const lanes: Instruction[][] = schedule.lanes.map(() => []);
  let records = 0;
  for (const i of schedule.program(rank)) {
    lanes[i.lane].push(i);
    records++;
  }
  const words = new Int32Array(HEADER_WORDS + 2 * lanes.length + RECORD_WORDS * records);
  words.set([ENCODING_MAGIC, lanes.length, schedule.chunks, schedule.size]);
  let at = HEADER_WORDS + 2 * lanes.length;
  for (let lane = 0; lane < lanes.length; lane++) {
    words[HEADER_WORDS + 2 * lane] = at;
    words[HEADER_WORDS + 2 * lane + 1] = lanes[lane].length;
    for (const i of lanes[lane]) {
      encodeInstruction(i, words, at);
      at += RECORD_WORDS;
    }
  }
  return words;
}

function encodeInstruction(i: Instruction, words: Int32Array, at: number): void {
  if (i.channel > 255 || i.buffer > 255 || i.otherBuffer > 255)
    throw new RangeError(`channel and buffer ids go to 255: ${JSON.stringify(i)}`);
  words[at] = OPCODES[i.op] | (i.finish ? FINISH : 0);
  words[at + 1] = i.step;
  words[at + 2] = i.peer;
  words[at + 3] = i.channel;
  words[at + 4] = i.buffer | (i.otherBuffer << 16);
  words[at + 5] = i.first;
  words[at + 6] = i.count;
  words[at + 7] = i.otherFirst;
}

/** Reads one lane back. @throws RangeError when the words are not a program of this version. */
export function* decodeLane(words: Int32Array, lane: number): Generator<Instruction> {
  if (words[0] !== ENCODING_MAGIC) throw new RangeError('not an encoded program, or one of another version');
  const start = words[HEADER_WORDS + 2 * lane];
  const length = words[HEADER_WORDS + 2 * lane + 1];
  for (let at = start; at < start + length * RECORD_WORDS; at += RECORD_WORDS) {
    yield instruction(OPERATIONS[words[at] & 0xff], words[at + 2], {
      lane,
      step: words[at + 1],
      channel: words[at + 3],
      buffer: words[at + 4] & 0xffff,
      first: words[at + 5],
      count: words[at + 6],
      otherBuffer: words[at + 4] >>> 16,
      otherFirst: words[at + 7],
      finish: (words[at] & FINISH) !== 0,
    });
  }
}
