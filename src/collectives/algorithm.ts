/**
 * An algorithm: a named way to do a collective. Its schedule, its cost formula, and when it may be used.
 *
 * The cost is in the alpha-beta-gamma model: a message of m bytes takes alpha + m beta, combining m bytes takes gamma m; a rank sends one
 * and receives one message at a time, both at once. alpha and beta differ inside a host, between hosts and in shared memory, so a cost is a sum
 * of terms, each on one level. Constants belong to the machine (`machine.ts`), never to an algorithm.
 */

import type { Collective, Schedule } from '../schedule/schedule.js';
import type { Topology } from '../schedule/topology.js';

/** What is asked of an algorithm. */
export interface Shape {
  /** Ranks, >= 1. */
  readonly size: number;
  /**
   * n: bytes of the whole vector of one rank. For all-gather and gather the gathered size, for scatter, reduce-scatter and all-to-all the size before
   * it is cut (nccl-tests' convention). 0 for barrier.
   */
  readonly bytes: number;
  /** Root, or the distance of a send-receive. Default 0. */
  readonly root?: number;
  /** Where the ranks live. Default: all on one host. */
  readonly topology?: Topology;
  /** Pieces a pipelined form cuts its message into, >= 1. Default: the algorithm's; selection searches for the best. */
  readonly segments?: number;
  /** Parameter servers, 1 .. size. Default: size. */
  readonly servers?: number;
  /** Shards of the reproducible form, a multiple of size. Default: size. */
  readonly shards?: number;
  /** Ports of a switch in the in-network form, >= 2. Default 16. */
  readonly radix?: number;
}

/**
 * Where a term of a cost is paid. `flat`: inside the host if there is one host only, otherwise on the network. `memory`: reading a peer's memory;
 * `memory-write`: writing it; `memory-update`: writing what was read just before, so that it is in the cache.
 */
export type Level = 'flat' | 'host' | 'network' | 'memory' | 'memory-write' | 'memory-update' | 'switch';

/** Messages and bytes of a cost on one level: inside a host, or between hosts. */
export interface CostTerm {
  readonly level: Level;
  /** Messages, one after the other, on the critical path. */
  readonly alpha: number;
  /** Bytes, one after the other, through the busiest port. */
  readonly beta: number;
  /** Ranks of one host that use its NICs at the same time in this term. Default 1. */
  readonly flows?: number;
  /** `flat` on hosts with several ranks: bytes through a rank's port inside the host meanwhile. Default: beta. */
  readonly insideBeta?: number;
}

/** What a call costs, in messages and bytes; a machine's constants make seconds of it (`machine.ts`). */
export interface Cost {
  readonly terms: readonly CostTerm[];
  /** Bytes combined, one after the other, on the critical path. */
  readonly gamma: number;
  /** Bytes copied or combined inside the own memory beyond what is taken in, at the busiest rank. Default 0. */
  readonly copied?: number;
  /**
   * Segments in which the terms overlap: the longest term is paid in full, the others for one segment of it. Default 1: the terms add up.
   */
  readonly overlap?: number;
}

export interface Algorithm {
  readonly collective: Collective;
  /** kebab-case; unique within its collective; what the override string names. */
  readonly name: string;
  /** One line: the idea and when it wins. */
  readonly description: string;
  /** True, or the reason why this shape cannot run. */
  supports(shape: Shape): true | string;
  /** @throws RangeError where `supports` gives a reason. */
  schedule(shape: Shape): Schedule;
  cost(shape: Shape): Cost;
  /** Shape fields that selection may choose. */
  readonly tunable?: 'segments';
  /** Needs something not every machine has; selection leaves it out unless it is offered. */
  readonly needs?: 'shared-memory' | 'multicast' | 'switch-reduction' | 'dedicated-servers' | 'shards';
}

/** A cost with one term. `flows` defaults to the ranks per host, as in exchanges where every rank talks to another host at once. */
export function flatCost(shape: Shape, alpha: number, beta: number, gamma: number, flows?: number): Cost {
  return { terms: [{ level: 'flat', alpha, beta, flows: flows ?? busiestHost(shape.topology) }], gamma };
}

/** Ranks on the fullest host; 1 when nothing is known. */
export function busiestHost(topology: Topology | undefined): number {
  if (topology === undefined) return 1;
  if (topology.ranksPerHost !== undefined) return topology.ranksPerHost;
  let most = 1;
  for (let host = 0; host < topology.hosts; host++) most = Math.max(most, topology.ranksOf(host).length);
  return most;
}

/** Refuses a schedule for a shape the algorithm does not support. */
export function requireSupport(algorithm: Pick<Algorithm, 'collective' | 'name' | 'supports'>, shape: Shape): void {
  const verdict = algorithm.supports(shape);
  if (verdict !== true) throw new RangeError(`${algorithm.collective}:${algorithm.name} does not support this shape: ${verdict}`);
}

/** For algorithms of ranks that reach each other's memory. */
export function onOneHost({ topology }: Shape): true | string {
  return (topology?.hosts ?? 1) === 1 ? true : 'needs all ranks on one host';
}

/** For algorithms that run at every size. */
export function always(): true {
  return true;
}
