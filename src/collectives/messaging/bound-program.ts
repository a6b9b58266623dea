/**
 * A rank's program bound to memory: for every step the bytes that are sent, where messages land, and what is then combined or copied. Made once, run often.
 *
 *   receive          message ──> own buffer
 *   receiveReduce    message ──> landing space of the lane ──reduce──> own buffer
 *   copy, reduce     own buffer ──> own buffer
 */

import type { Payload } from '../../messaging/index.js';
import { payloadOf } from '../../messaging/payload.js';
import { windowOf } from '../../schedule/contract.js';
import { OPCODES } from '../../schedule/encoding.js';
import type { Instruction, Schedule } from '../../schedule/schedule.js';
import { type Piece, pieces, windowLength } from '../../schedule/split.js';
import type { Vector } from '../element.js';
import { CollectiveError } from '../errors.js';
import { type Request, splitOf, WIDTHS } from '../request.js';

/** Memory in JavaScript and where it lies. */
export interface Place {
  readonly bytes: Uint8Array;
  /** Of the first byte; 0 when nothing combines it. */
  readonly address: number;
}

/** own = own op other, or own = other. */
export interface Work {
  readonly own: Place;
  readonly other: Place;
  readonly elements: number;
}

export interface Step {
  /** As in OPCODES. */
  readonly code: number;
  /** The other rank; the lane of an `after`. */
  readonly peer: number;
  readonly channel: number;
  /** Operations an `after` waits for. */
  readonly count: number;
  readonly finish: boolean;
  /** What a post or a take is: one message, or two where a range of chunks wraps. */
  readonly messages: readonly Payload[];
  readonly bytes: number;
  readonly work: readonly Work[];
}

export interface BoundProgram {
  readonly lanes: readonly (readonly Step[])[];
  /** Kept alive by the program. */
  readonly memory: readonly unknown[];
}

const NOTHING = payloadOf(new Uint8Array(0));
const ALIGNMENT = 64;

/** @param allocate scratch of so many bytes. @param addressOf of an ArrayBuffer. @throws COLL_INVALID for a schedule that messages cannot carry out. */
export function bindProgram(
  schedule: Schedule,
  rank: number,
  request: Request,
  allocate: (bytes: number) => Uint8Array,
  addressOf: (buffer: ArrayBufferLike) => number,
): BoundProgram {
  const refuse = (why: string): never => {
    throw new CollectiveError('COLL_INVALID', `${schedule.collective}:${schedule.algorithm} cannot run over messages: ${why}`);
  };
  if (schedule.nodes > schedule.size) refuse('it needs switches or servers that are no ranks');
  const width = WIDTHS[request.type];
  const program = [...schedule.program(rank)];
  const windows = schedule.buffers.map((_, id) => windowOf(schedule, id, rank));
  const splits = schedule.buffers.map(({ kind }, id) => splitOf(request, id, kind === 'user', schedule.chunks));
  const cut = (id: number, first: number, count: number): Piece[] => pieces(splits[id], windows[id], first, count);
  const elementsOf = (list: readonly Piece[]): number => list.reduce((sum, piece) => sum + piece.length, 0);

  // Scratch buffers, then one landing space per lane, in one block.
  let size = 0;
  const room = (bytes: number): number => {
    const at = size;
    size += Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
    return at;
  };
  const scratchAt = schedule.buffers.map(({ kind }, id) =>
    kind === 'user' ? -1 : room(windowLength(splits[id], windows[id]) * width),
  );
  const landing = schedule.lanes.map((_, lane) => {
    let most = 0;
    for (const i of program) {
      if (i.lane === lane && i.op === 'receiveReduce') most = Math.max(most, elementsOf(cut(i.buffer, i.first, i.count)) * width);
    }
    return most === 0 ? -1 : room(most);
  });
  const block = size === 0 ? new Uint8Array(0) : allocate(size);
  const reduces = program.some(({ op }) => op === 'reduce' || op === 'receiveReduce');
  const placeOf = (bytes: Uint8Array): Place => ({
    bytes,
    address: reduces && bytes.length > 0 ? addressOf(bytes.buffer) + bytes.byteOffset : 0,
  });
  const blockPlace = placeOf(block);
  let userId = 0;
  const places = schedule.buffers.map(({ kind }, id): Place => {
    if (kind === 'user') return placeOf(bytesOf(request.buffers[userId++]));
    return part(blockPlace, scratchAt[id], windowLength(splits[id], windows[id]) * width);
  });

  const inBuffer = (id: number, first: number, count: number): Place[] =>
    cut(id, first, count).map(({ offset, length }) => part(places[id], offset * width, length * width));
  const landings = (lane: number, own: readonly Place[]): Place[] => {
    let at = landing[lane];
    return own.map(({ bytes }) => {
      const place = part(blockPlace, at, bytes.length);
      at += bytes.length;
      return place;
    });
  };
  const works = (own: readonly Place[], other: readonly Place[]): Work[] =>
    own.map((place, p) => ({ own: place, other: other[p], elements: place.bytes.length / width }));

  const stepOf = (i: Instruction): Step => {
    const base = { code: OPCODES[i.op], peer: i.peer, channel: i.channel, count: i.count, finish: i.finish };
    const none = { messages: [], bytes: 0, work: [] };
    switch (i.op) {
      case 'after':
        return { ...base, ...none };
      case 'signal':
      case 'wait':
        return { ...base, ...none, messages: [NOTHING] };
      case 'send':
      case 'receive': {
        const own = inBuffer(i.buffer, i.first, i.count);
        return { ...base, messages: own.map(({ bytes }) => payloadOf(bytes)), bytes: total(own), work: [] };
      }
      case 'receiveReduce': {
        const own = inBuffer(i.buffer, i.first, i.count);
        const from = landings(i.lane, own);
        return { ...base, messages: from.map(({ bytes }) => payloadOf(bytes)), bytes: total(own), work: works(own, from) };
      }
      case 'copy':
      case 'reduce': {
        const own = inBuffer(i.buffer, i.first, i.count);
        return { ...base, ...none, work: works(own, inBuffer(i.otherBuffer, i.otherFirst, i.count)) };
      }
      case 'multicast':
        return refuse('there is no multicast between workers');
      default:
        return refuse("it reads or writes peers' memory");
    }
  };
  const lanes: Step[][] = schedule.lanes.map(() => []);
  for (const i of program) lanes[i.lane].push(stepOf(i));
  return { lanes, memory: [request.buffers, block] };
}

function part(place: Place, offset: number, length: number): Place {
  return {
    bytes: place.bytes.subarray(offset, offset + length),
    address: place.address === 0 ? 0 : place.address + offset,
  };
}

function total(places: readonly Place[]): number {
  return places.reduce((sum, { bytes }) => sum + bytes.length, 0);
}

function bytesOf(data: Vector | undefined): Uint8Array {
  return data === undefined ? new Uint8Array(0) : new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}
