/**
 * Simulation by events: lanes run as the schedule says, messages start when their sender gets there, and rounds overlap where nothing forbids it. The exact
 * form for up to some hundred ranks; `rounds.ts` is for thousands.
 *
 * A send occupies its lane until its last byte has arrived; a signal does not wait. A take completes when its message is there and, for a
 * reduction, combined. Switches post and combine at wire speed.
 */
import { isPost, isTake } from '../../schedule/instruction.js';
import type { Instruction } from '../../schedule/schedule.js';
import { PlanRefusal } from '../refusal.js';
import { EventHeap } from './event-heap.js';
import type { Fabric } from './fabric.js';
import { type HelperKind, placeHelpers } from './placement.js';
import { TrafficReader, type Workload } from './traffic.js';
import { makeTransfers, pathLatencyNs } from './transfers.js';

/** How long the schedule took, and what it moved. */
export interface EventsResult {
  readonly totalNs: number;
  readonly messages: number;
  /** When each node finished its last instruction. */
  readonly finishedNs: Float64Array;
  /** Start and end of every message, in order of starting. */
  readonly timeline: readonly {
    readonly from: number;
    readonly to: number;
    readonly step: number;
    readonly startNs: number;
    readonly endNs: number;
  }[];
}

interface Lane {
  readonly node: number;
  readonly instructions: Instruction[];
  at: number;
  done: number;
  readonly waiters: Lane[];
}

interface Message {
  readonly to: number;
  readonly from: number;
  readonly step: number;
  /** One stream, several for a multicast, none for reads and writes. */
  readonly streams: readonly Stream[];
  /** Lane that goes on when this message has arrived. */
  readonly holds: Lane | undefined;
  readonly startNs: number;
  endNs: number;
}

interface Stream {
  arrived: number;
  taken: number;
  taker: Lane | undefined;
}

/** Plays the schedule message by message; links are shared fairly by whatever crosses them at a time. */
export function simulateEvents(fabric: Fabric, workload: Workload, options: { helpers?: HelperKind } = {}): EventsResult {
  const { schedule } = workload;
  placeHelpers(fabric, schedule, options.helpers ?? 'switches');
  const reader = new TrafficReader(workload);
  const { overheadNs, triggeredNs, reduceBytesPerSecond } = fabric.options;
  const transfers = makeTransfers(fabric);
  const agenda = new EventHeap();
  const actions: (() => void)[] = [];
  const messages: Message[] = [];
  const streams = new Map<number, Stream>();
  const finishedNs = new Float64Array(schedule.nodes);
  const cpuFree = new Float64Array(schedule.nodes);
  const lanes: Lane[][] = [];
  let now = 0;

  const later = (time: number, action: () => void): void => {
    actions.push(action);
    agenda.push(time, actions.length - 1);
  };
  const streamOf = (from: number, to: number, channel: number): Stream => {
    const key = (from * schedule.nodes + to) * 256 + channel;
    let stream = streams.get(key);
    if (stream === undefined) {
      stream = { arrived: 0, taken: 0, taker: undefined };
      streams.set(key, stream);
    }
    return stream;
  };
  const complete = (lane: Lane): void => {
    lane.at++;
    lane.done++;
    finishedNs[lane.node] = now;
    const waiters = lane.waiters.splice(0);
    run(lane);
    for (const waiter of waiters) run(waiter);
  };
  const ranks = options.helpers === 'endpoints' ? schedule.nodes : schedule.size;
  const workNs = (node: number, instruction: Instruction): number =>
    node < ranks ? reader.bytesOf(instruction) / (reduceBytesPerSecond / 1e9) : 0;
  const take = (lane: Lane, stream: Stream): void => {
    stream.taken++;
    stream.taker = undefined;
    const instruction = lane.instructions[lane.at];
    const cost = instruction.op === 'receiveReduce' ? workNs(lane.node, instruction) : 0;
    later(now + cost, () => complete(lane));
  };
  /** Posts are serial at a node: one overhead after the other. A multicast is one transfer over the union of its paths. */
  const launch = (
    node: number,
    from: number,
    to: readonly number[],
    instruction: Instruction,
    streams: readonly Stream[],
    holds: Lane | undefined,
  ): void => {
    const cost = node >= ranks ? 0 : cpuFree[node] === 0 ? overheadNs : triggeredNs;
    const begin = Math.max(now, cpuFree[node]) + cost;
    cpuFree[node] = begin;
    later(begin, () => {
      const paths = to.map((target) => fabric.path(from, target));
      const path = paths.length === 1 ? paths[0] : [...new Set(paths.flat())];
      const latency = Math.max(...paths.map((each) => pathLatencyNs(fabric, each)));
      const bytes = reader.bytesOf(instruction);
      messages.push({ from, to: to[0], step: instruction.step, streams, holds, startNs: begin, endNs: begin });
      transfers.start(messages.length - 1, path, bytes, begin, latency);
    });
  };
  const run = (lane: Lane): void => {
    for (; lane.at < lane.instructions.length; ) {
      const instruction = lane.instructions[lane.at];
      const { op } = instruction;
      if (op === 'after') {
        const other = lanes[lane.node][instruction.peer];
        if (other.done < instruction.count) {
          other.waiters.push(lane);
          return;
        }
        lane.at++;
      } else if (isPost(op)) {
        const targets = op === 'multicast' ? reader.audience(lane.node, instruction.channel) : [instruction.peer];
        const streamsOf = targets.map((to) => streamOf(lane.node, to, instruction.channel));
        const holds = op === 'signal' ? undefined : lane;
        if (fabric.options.switching === 'cut-through' && targets.length > 0)
          launch(lane.node, lane.node, targets, instruction, streamsOf, holds);
        else
          for (const [i, to] of targets.entries())
            launch(lane.node, lane.node, [to], instruction, [streamsOf[i]], i === 0 ? holds : undefined);
        if (op !== 'signal' && targets.length > 0) return;
        lane.at++;
        lane.done++;
      } else if (isTake(op)) {
        const stream = streamOf(instruction.peer, lane.node, instruction.channel);
        if (stream.arrived > stream.taken) take(lane, stream);
        else stream.taker = lane;
        return;
      } else if (op === 'copy' || op === 'reduce') {
        later(now + workNs(lane.node, instruction), () => complete(lane));
        return;
      } else {
        const [from, to] = op === 'write' ? [lane.node, instruction.peer] : [instruction.peer, lane.node];
        launch(lane.node, from, [to], instruction, [], lane);
        return;
      }
    }
  };

  for (let node = 0; node < schedule.nodes; node++) {
    const own: Lane[] = schedule.lanes.map(() => ({ node, instructions: [], at: 0, done: 0, waiters: [] }));
    for (const instruction of schedule.program(node)) own[instruction.lane].instructions.push(instruction);
    lanes.push(own);
  }
  for (const own of lanes) for (const lane of own) run(lane);
  for (;;) {
    const time = Math.min(agenda.firstTime, transfers.nextTime());
    if (time === Number.POSITIVE_INFINITY) break;
    now = time;
    const arrived = transfers.advance(time);
    for (const id of arrived) {
      const message = messages[id];
      message.endNs = time;
      for (const stream of message.streams) {
        stream.arrived++;
        if (stream.taker !== undefined) take(stream.taker, stream);
      }
      if (message.holds !== undefined) {
        const lane = message.holds;
        const { op } = lane.instructions[lane.at];
        if (op === 'readReduce') later(now + workNs(lane.node, lane.instructions[lane.at]), () => complete(lane));
        else complete(lane);
      }
    }
    while (agenda.firstTime <= now) actions[agenda.pop()]();
  }
  for (const own of lanes) {
    for (const lane of own) {
      if (lane.at < lane.instructions.length)
        throw new PlanRefusal(
          `${schedule.algorithm}: node ${lane.node} never gets past ${lane.instructions[lane.at].op} in step ${lane.instructions[lane.at].step}`,
        );
    }
  }
  const timeline = messages.map(({ from, to, step, startNs, endNs }) => ({ from, to, step, startNs, endNs }));
  return { totalNs: finishedNs.reduce((most, time) => Math.max(most, time), 0), messages: messages.length, finishedNs, timeline };
}
