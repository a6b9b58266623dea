/**
 * The alpha-beta-gamma time of an algorithm, by its own cost formula, on the constants of a fabric. No contention: what the algorithm would take if every message had
 * its path for itself. The simulator says what is left of that on a real topology.
 */
import type { Algorithm, Shape } from '../../collectives/algorithm.js';
import { type Machine, predictSeconds } from '../../collectives/machine.js';
import { regularTopology } from '../../schedule/topology.js';
import type { Fabric } from '../simulate/fabric.js';

/** The constants of a fabric as a machine, with the mean number of hops between ranks (sampled) in alpha. */
export function machineOf(fabric: Fabric): Machine {
  const { options, network } = fabric;
  const host = {
    alphaSeconds: (options.overheadNs + options.hostLatencyNs) / 1e9,
    betaSecondsPerByte: 1 / options.hostBytesPerSecond,
  };
  return {
    name: network.name,
    host,
    memory: host,
    network: {
      alphaSeconds: (options.overheadNs + meanHops(fabric) * options.hopLatencyNs) / 1e9,
      betaSecondsPerByte: 1 / options.linkBytesPerSecond,
    },
    // a switch that reduces: a hop, no software
    switch: { alphaSeconds: options.hopLatencyNs / 1e9, betaSecondsPerByte: 1 / options.linkBytesPerSecond },
    gammaSecondsPerByte: 1 / options.reduceBytesPerSecond,
  };
}

/** Nanoseconds of an algorithm for a shape whose ranks stand on a fabric's endpoints. */
export function formulaNs(algorithm: Algorithm, shape: Shape, machine: Machine, ranksPerEndpoint: number): number {
  const hosts = Math.ceil(shape.size / ranksPerEndpoint);
  return (
    1e9 *
    predictSeconds(
      algorithm.cost(shape),
      { ...shape, topology: regularTopology({ hosts, ranksPerHost: ranksPerEndpoint }) },
      machine,
    )
  );
}

function meanHops(fabric: Fabric): number {
  const n = fabric.ranks;
  if (n < 2) return 0;
  let [sum, count] = [0, 0];
  for (let i = 0; i < 64; i++) {
    const from = Math.floor((i * 0.6180339887 * n) % n);
    const to = Math.floor((i * 0.7548776662 * n + n / 2) % n);
    if (fabric.vertexOf(from) === fabric.vertexOf(to)) continue;
    sum += fabric.path(from, to).length;
    count++;
  }
  return count === 0 ? 0 : sum / count;
}
