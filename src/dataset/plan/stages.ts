/** Cuts a plan at its shuffles. Every rank makes the same stages of the same plan, which a fingerprint proves. */

import type { ShuffleInfo } from '../shuffle/manager.js';
import type { PlanNode, ShuffleDependency } from './node.js';

export interface Stage {
  readonly id: number;
  /** The last node of the stage; its partitions are the tasks. */
  readonly node: PlanNode;
  /** The shuffle that its output goes into; undefined for the last stage. */
  readonly output: ShuffleDependency | undefined;
  /** Shuffles that its tasks read. */
  readonly inputs: readonly ShuffleDependency[];
  /** All nodes that run in its tasks, sources first. */
  readonly nodes: readonly PlanNode[];
}

export interface StagePlan {
  readonly job: string;
  /** In an order in which they can run; the last one makes the result. */
  readonly stages: readonly Stage[];
  readonly shuffles: ReadonlyMap<ShuffleDependency, ShuffleInfo>;
  readonly producers: ReadonlyMap<ShuffleDependency, Stage>;
  readonly fingerprint: string;
}

export function planStages(job: string, last: PlanNode): StagePlan {
  const stages: Stage[] = [];
  const shuffles = new Map<ShuffleDependency, ShuffleInfo>();
  const producers = new Map<ShuffleDependency, Stage>();
  const build = (node: PlanNode, output: ShuffleDependency | undefined): void => {
    const inputs: ShuffleDependency[] = [];
    const nodes: PlanNode[] = [];
    const seen = new Set<PlanNode>();
    const walk = (at: PlanNode): void => {
      if (seen.has(at)) return;
      seen.add(at);
      for (const dependency of at.dependencies) {
        if (dependency.kind === 'narrow') {
          walk(dependency.parent);
          continue;
        }
        if (!inputs.includes(dependency)) inputs.push(dependency);
        if (shuffles.has(dependency)) continue;
        const id = `${job}/${shuffles.size}`;
        shuffles.set(dependency, { id, maps: dependency.parent.partitions, partitions: dependency.partitions });
        build(dependency.parent, dependency);
      }
      nodes.push(at);
    };
    walk(node);
    const stage = { id: stages.length, node, output, inputs, nodes };
    stages.push(stage);
    if (output) producers.set(output, stage);
  };
  build(last, undefined);
  const fingerprint = stages
    .map(({ nodes, node, output }) => `${nodes.map(({ name }) => name).join('>')}x${node.partitions}:${output?.partitions ?? 0}`)
    .join('|');
  return { job, stages, shuffles, producers, fingerprint };
}
