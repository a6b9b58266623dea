/**
 * The constants of a machine, from measured calls: which calls to measure, and what follows from their times.
 *
 * Few calls, each of which shows one constant: a call in the entry slots; an all-gather out of peers' memory (signals and plain access); a ring
 * all-gather (messages); a reduce-scatter out of peers' memory, which is the all-gather's traffic and the arithmetic; a pairwise all-to-all, which adds a
 * local copy to messages, and one that writes into peers' memory; an all-reduce, which writes back what it read. Each over sizes, because what fits into a cache moves faster. Everything else is predicted.
 */

import type { Collective } from '../schedule/schedule.js';
import { LOCAL_MACHINE } from './local-machine.js';
import type { Curve, Link, Machine } from './machine.js';

/** A call to measure. */
export interface MeasuredCall {
  readonly collective: Collective;
  /** undefined: what fits into the entry slots. */
  readonly algorithm: string | undefined;
  /** Of the whole vector, f32. */
  readonly bytes: number;
}

/** A call and the seconds that it took. */
export interface MeasuredTime extends MeasuredCall {
  readonly seconds: number;
}

const KI = 1024;
const SIZES = [16 * KI, 128 * KI, 1024 * KI, 4096 * KI];
/** The largest vectors: beyond every cache, but not beyond the memory of many ranks. */
const largest = (ranks: number) => (ranks <= 4 ? 65536 : 16384) * KI;
const SLOT_BYTES = 4096 - 64;

/** What is measured for a number of ranks. */
export function calibrationCalls(ranks: number): MeasuredCall[] {
  const sizes = [...SIZES, largest(ranks)];
  const even = (bytes: number) => Math.ceil(bytes / (4 * ranks)) * 4 * ranks;
  const call = (collective: Collective, algorithm: string | undefined, bytes: number) => ({
    collective,
    algorithm,
    bytes: even(bytes),
  });
  return [
    { collective: 'barrier', algorithm: undefined, bytes: 0 },
    { collective: 'allreduce', algorithm: undefined, bytes: SLOT_BYTES - (SLOT_BYTES % (4 * ranks)) },
    call('all-gather', 'shared-direct', 4 * ranks),
    call('all-gather', 'ring', 4 * ranks),
    ...sizes.map((bytes) => call('all-gather', 'shared-direct', bytes)),
    ...sizes.map((bytes) => call('all-gather', 'ring', bytes)),
    ...sizes.map((bytes) => call('reduce-scatter', 'shared-direct', bytes)),
    ...sizes.map((bytes) => call('all-to-all', 'pairwise', bytes)),
    ...sizes.map((bytes) => call('all-to-all', 'shared-direct', bytes)),
    ...sizes.map((bytes) => call('allreduce', 'shared-direct', bytes)),
  ];
}

/** The machine that explains the measured times of `calibrationCalls` on so many processors. @throws RangeError when some are missing. */
export function fitMachine(name: string, ranks: number, measured: readonly MeasuredTime[], processors = ranks): Machine {
  const times = (collective: Collective, algorithm: string | undefined) => {
    const found = measured.filter((one) => one.collective === collective && one.algorithm === algorithm);
    if (found.length === 0) throw new RangeError(`no time of ${collective}:${algorithm ?? 'slots'} was measured`);
    return [...found].sort((a, b) => a.bytes - b.bytes);
  };
  const share = (ranks - 1) / ranks;
  const [barrier] = times('barrier', undefined);
  const [slots] = times('allreduce', undefined);
  const call = barrier.seconds;
  const memory = linkOf(times('all-gather', 'shared-direct'), call, 2 * (ranks - 1), share);
  const host = linkOf(times('all-gather', 'ring'), call, ranks - 1, share);
  const gammaCurve: Curve = times('reduce-scatter', 'shared-direct').map(({ bytes, seconds }) => {
    const moved = call + 2 * (ranks - 1) * memory.alphaSeconds + bytes * share * at(memory.curve, bytes);
    return { bytes, secondsPerByte: Math.max(0, seconds - moved) / (bytes * share) };
  });
  const copyCurve: Curve = times('all-to-all', 'pairwise').map(({ bytes, seconds }) => {
    const moved = call + (ranks - 1) * host.alphaSeconds + bytes * share * at(host.curve, bytes);
    return { bytes, secondsPerByte: Math.max(0, seconds - moved) / (bytes / ranks) };
  });
  const writeCurve: Curve = times('all-to-all', 'shared-direct').map(({ bytes, seconds }) => {
    const copied = call + 2 * (ranks - 1) * memory.alphaSeconds + (bytes / ranks) * at(copyCurve, bytes);
    return { bytes, secondsPerByte: Math.max(0, seconds - copied) / (bytes * share) };
  });
  // Below zero where reading and writing back overlap.
  const updateCurve: Curve = times('allreduce', 'shared-direct').map(({ bytes, seconds }) => {
    const read = call + 2 * (ranks - 1) * memory.alphaSeconds + bytes * share * (at(memory.curve, bytes) + at(gammaCurve, bytes));
    return { bytes, secondsPerByte: (seconds - read) / (bytes * share) };
  });
  return {
    ...LOCAL_MACHINE,
    name,
    host,
    memory,
    memoryWrite: { alphaSeconds: memory.alphaSeconds, betaSecondsPerByte: middle(writeCurve), curve: writeCurve },
    memoryUpdate: { alphaSeconds: 0, betaSecondsPerByte: middle(updateCurve), curve: updateCurve },
    callSeconds: call,
    sharing: Math.max(1, ranks / processors),
    gammaSecondsPerByte: middle(gammaCurve),
    gammaCurve,
    copy: { secondsPerByte: middle(copyCurve), curve: copyCurve },
    slots: { alphaSeconds: call, betaSecondsPerByte: Math.max(0, slots.seconds - call) / (slots.bytes * ranks) },
  };
}

/** Latency from the smallest call, seconds per byte from each of the others. */
function linkOf(
  [smallest, ...others]: readonly MeasuredTime[],
  call: number,
  messages: number,
  share: number,
): Link & { readonly curve: Curve } {
  const alphaSeconds = Math.max(0, smallest.seconds - call) / messages;
  const curve = others.map(({ bytes, seconds }) => ({
    bytes,
    secondsPerByte: Math.max(1e-13, seconds - smallest.seconds) / (bytes * share),
  }));
  return { alphaSeconds, betaSecondsPerByte: middle(curve), curve };
}

function at(curve: Curve, bytes: number): number {
  return curve.find((point) => point.bytes === bytes)?.secondsPerByte ?? middle(curve);
}

function middle(curve: Curve): number {
  if (curve.length === 0) throw new RangeError('too few sizes were measured');
  return curve[Math.floor(curve.length / 2)].secondsPerByte;
}

/** Seconds of a call in the entry slots. */
export function slotSeconds(machine: Machine, ranks: number, bytes: number): number | undefined {
  if (machine.slots === undefined) return undefined;
  return machine.slots.alphaSeconds + ranks * bytes * machine.slots.betaSecondsPerByte;
}
