/**
 * A ping-pong in shared memory whose data are plain words and whose sequence numbers are Atomics.
 *
 * ```
 *   word   0            16             32           48
 *        [ ping number | ping data x3 | pong number | pong data x3 ]
 * ```
 * The data words are loaded before the number is awaited as well as after it: an engine that merged the two loads, or moved the second above
 * the Atomics.load, would give the old value.
 */

const PING = 0;
const PING_DATA = 16;
const PONG = 32;
const PONG_DATA = 48;

/** Data of a round: differs from the round before in every word. */
const dataOf = (round: number, k: number): number => (Math.imul(round, 0x9e3779b1) + k * 7) | 0;

/** Waits for a number, with plain loads of the data on both sides of the waiting. Returns how many words were not those of the round. */
function awaitRound(words: Int32Array, number: number, data: number, round: number): number {
  const before = words[data] + words[data + 1] + words[data + 2];
  while (Atomics.load(words, number) !== round);
  let stale = 0;
  if (words[data] !== dataOf(round, 0)) stale++;
  if (words[data + 1] !== dataOf(round, 1)) stale++;
  if (words[data + 2] !== dataOf(round, 2)) stale++;
  return before === Number.MAX_SAFE_INTEGER ? -1 : stale;
}

function writeRound(words: Int32Array, number: number, data: number, round: number): void {
  words[data] = dataOf(round, 0);
  words[data + 1] = dataOf(round, 1);
  words[data + 2] = dataOf(round, 2);
  Atomics.store(words, number, round);
}

/** The side that starts. Returns stale words seen. */
export function sendPings(bytes: Uint8Array, rounds: number): number {
  const words = new Int32Array(bytes.buffer, bytes.byteOffset, 64);
  let stale = 0;
  for (let round = 1; round <= rounds; round++) {
    writeRound(words, PING, PING_DATA, round);
    stale += awaitRound(words, PONG, PONG_DATA, round);
  }
  return stale;
}

/** The side that answers. Returns stale words seen. */
export function answerPings(bytes: Uint8Array, rounds: number): number {
  const words = new Int32Array(bytes.buffer, bytes.byteOffset, 64);
  let stale = 0;
  for (let round = 1; round <= rounds; round++) {
    stale += awaitRound(words, PING, PING_DATA, round);
    writeRound(words, PONG, PONG_DATA, round);
  }
  return stale;
}
