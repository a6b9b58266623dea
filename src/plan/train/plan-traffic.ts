/**
 * The traffic of a training plan on a topology: all groups at once, with contention.
 *
 * The cost of a plan assumes that every group has the network to itself. Here all tensor groups, all stage boundaries and all data-parallel groups run at once, each kind by
 * itself, with the schedules of the collectives, on the network the cluster would have:
 *
 * ```
 *   rank = (replica x stages + stage) x tensor + lane        tensor innermost: a tensor group is consecutive ranks of one host
 *   tensor group    the `tensor` ranks of one (replica, stage)
 *   boundary        rank -> rank + tensor, for all stages but the last
 *   data group      the `data` ranks of one (stage, lane), stages x tensor apart
 * ```
 * A host has one link per NIC, so the network is that many equal planes; it is simulated as one plane of that many times the speed.
 */
import { ring } from '../../collectives/allreduce/ring.js';
import type { Instruction, Schedule } from '../../schedule/schedule.js';
import { PlanRefusal } from '../refusal.js';
import { type Fabric, makeFabric } from '../simulate/fabric.js';
import { simulateRounds } from '../simulate/rounds.js';
import { runTogether } from '../simulate/transfers.js';
import type { Network } from '../topology/network.js';
import type { Cluster } from './cluster.js';
import { stageParameters } from './memory.js';
import type { Model } from './model.js';
import { boundarySeconds, type PlanCost } from './plan.js';

export interface TrafficPart {
  readonly name: 'tensor' | 'boundary' | 'data';
  /** Seconds of one exchange as the cost of the plan assumes them: each device has its share of the NICs, and nobody is in the way. */
  readonly assumedSeconds: number;
  /** Seconds when all groups run at once on the network. */
  readonly simulatedSeconds: number;
  /** Bytes per channel when all run. */
  readonly channelBytes: Float64Array;
}

/** Simulates one all-reduce of each tensor group, one hand-over at each boundary, and one gradient all-reduce of each data group. Parts a plan does not have are left out. */
export function simulatePlanTraffic(model: Model, cluster: Cluster, cost: PlanCost, network: Network): TrafficPart[] {
  const { data, tensor, pipeline, microBatch } = cost.choice;
  if (network.endpoints < cluster.hosts) {
    throw new PlanRefusal(
      `${network.name} has ${network.endpoints} endpoints and the cluster ${cluster.hosts} hosts`,
      `a network of at least ${cluster.hosts} endpoints`,
    );
  }
  const ranks = cluster.hosts * cluster.devicesPerHost;
  const fabric = (): Fabric =>
    makeFabric(network, ranks, {
      ranksPerEndpoint: cluster.devicesPerHost,
      linkBytesPerSecond: cluster.device.nicBytesPerSecond * cluster.nicEfficiency * cluster.devicesPerHost,
      hostBytesPerSecond: cluster.device.linkBytesPerSecond * cluster.linkEfficiency,
      hostLatencyNs: cluster.linkLatencySeconds * 1e9,
      overheadNs: 0,
      reduceBytesPerSecond: cluster.device.memoryBytesPerSecond / 3,
    });
  const activation = 2 * microBatch * model.sequence * model.hidden;
  const parts: TrafficPart[] = [];
  const allReduce = (name: 'tensor' | 'data', groupSize: number, stride: number, bytes: number): void => {
    if (groupSize === 1) return;
    const { totalNs, channelBytes } = simulateRounds(fabric(), {
      schedule: grouped(ring.schedule({ size: groupSize, bytes }), ranks, stride),
      bytes,
    });
    const inside = groupSize * stride <= cluster.devicesPerHost;
    const rate = inside
      ? cluster.device.linkBytesPerSecond * cluster.linkEfficiency
      : cluster.device.nicBytesPerSecond * cluster.nicEfficiency;
    parts.push({
      name,
      assumedSeconds: (2 * (groupSize - 1) * bytes) / groupSize / rate,
      simulatedSeconds: totalNs / 1e9,
      channelBytes,
    });
  };
  allReduce('tensor', tensor, 1, activation);
  if (pipeline > 1)
    parts.push(
      boundary(fabric(), {
        tensor,
        pipeline,
        ranks,
        bytes: activation / tensor,
        assumedSeconds: boundarySeconds(model, cluster, cost.choice),
      }),
    );
  allReduce('data', data, pipeline * tensor, 2 * stageParameters(model, pipeline, tensor));
  return parts;
}

/** One schedule run by many groups of ranks at once. Members of a group are `stride` apart; groups fill all ranks. */
function grouped(schedule: Schedule, ranks: number, stride: number): Schedule {
  const block = stride * schedule.size;
  const local = (rank: number): number => Math.floor((rank % block) / stride);
  const global = (rank: number, member: number): number => Math.floor(rank / block) * block + member * stride + (rank % stride);
  function* translated(rank: number, instructions: Iterable<Instruction>): Generator<Instruction> {
    for (const instruction of instructions)
      yield instruction.op === 'after' ? instruction : { ...instruction, peer: global(rank, instruction.peer) };
  }
  return {
    ...schedule,
    size: ranks,
    nodes: ranks,
    program: (rank) => translated(rank, schedule.program(local(rank))),
    at: (rank, step) => translated(rank, schedule.at(local(rank), step)),
  };
}

function boundary(
  fabric: Fabric,
  o: { tensor: number; pipeline: number; ranks: number; bytes: number; assumedSeconds: number },
): TrafficPart {
  const senders = Array.from({ length: o.ranks }, (_, rank) => rank).filter(
    (rank) => Math.floor(rank / o.tensor) % o.pipeline < o.pipeline - 1,
  );
  const flows = senders.map((rank) => ({ path: fabric.path(rank, rank + o.tensor), bytes: o.bytes }));
  const channelBytes = new Float64Array(fabric.capacity.length);
  for (const { path } of flows) for (const channel of path) channelBytes[channel] += o.bytes;
  const slowest = runTogether(fabric, flows).reduce((most, time) => Math.max(most, time), 0);
  return { name: 'boundary', assumedSeconds: o.assumedSeconds, simulatedSeconds: slowest / 1e9, channelBytes };
}
