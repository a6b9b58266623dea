/**
 * A census of a schedule: rounds, messages, bytes, and the peaks that hurt networks, counted by walking it. No network is assumed.
 *
 * Peak bytes per node and round is what one port must carry in one round; fan-in is how many messages one node is sent in one round
 * (incast: many senders, one last link).
 */
import { patternTraffic, type Workload } from './traffic.js';

export interface Census {
  readonly rounds: number;
  readonly messages: number;
  /** Bytes all nodes send together. */
  readonly totalBytes: number;
  /** Bytes the busiest node sends over the whole schedule. */
  readonly busiestSenderBytes: number;
  readonly busiestReceiverBytes: number;
  /** Most bytes one node sends, and receives, in one round. */
  readonly peakSentBytes: number;
  readonly peakReceivedBytes: number;
  /** Most messages one node sends, and receives, in one round. */
  readonly peakFanOut: number;
  readonly peakFanIn: number;
  /** Bytes the busiest node combines. */
  readonly busiestWorkBytes: number;
}

export function takeCensus(workload: Workload): Census {
  const nodes = workload.schedule.nodes;
  const sent = new Float64Array(nodes);
  const received = new Float64Array(nodes);
  const worked = new Float64Array(nodes);
  let [messages, totalBytes, peakSentBytes, peakReceivedBytes, peakFanOut, peakFanIn] = [0, 0, 0, 0, 0, 0];
  for (const { count, traffic } of patternTraffic(workload)) {
    const out = new Map<number, number>();
    const into = new Map<number, number>();
    const fanOut = new Map<number, number>();
    const fanIn = new Map<number, number>();
    const casts = new Set<number>();
    for (let i = 0; i < traffic.from.length; i++) {
      const from = traffic.from[i];
      const to = traffic.to[i];
      const bytes = traffic.bytes[i];
      raise(into, to, bytes);
      raise(fanIn, to, 1);
      if (traffic.cast[i] >= 0 && casts.has(traffic.cast[i])) continue; // a multicast leaves its sender once
      casts.add(traffic.cast[i]);
      raise(out, from, bytes);
      raise(fanOut, from, 1);
      messages += count;
      totalBytes += bytes * count;
    }
    for (const [node, bytes] of out) sent[node] += bytes * count;
    for (const [node, bytes] of into) received[node] += bytes * count;
    for (const [node, bytes] of traffic.work) worked[node] += bytes * count;
    peakSentBytes = Math.max(peakSentBytes, largest(out.values()));
    peakReceivedBytes = Math.max(peakReceivedBytes, largest(into.values()));
    peakFanOut = Math.max(peakFanOut, largest(fanOut.values()));
    peakFanIn = Math.max(peakFanIn, largest(fanIn.values()));
  }
  return {
    rounds: workload.schedule.steps,
    messages,
    totalBytes,
    busiestSenderBytes: largest(sent),
    busiestReceiverBytes: largest(received),
    peakSentBytes,
    peakReceivedBytes,
    peakFanOut,
    peakFanIn,
    busiestWorkBytes: largest(worked),
  };
}

function raise(map: Map<number, number>, key: number, by: number): void {
  map.set(key, (map.get(key) ?? 0) + by);
}

function largest(values: Iterable<number>): number {
  let most = 0;
  for (const value of values) if (value > most) most = value;
  return most;
}
