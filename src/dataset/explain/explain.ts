/** What a plan is and what became of it, as data and as text. */

import type { Engine } from '../engine.js';
import type { PlanNode } from '../plan/node.js';
import type { Stage, StagePlan } from '../plan/stages.js';
import type { StageReport } from '../scheduler/protocol.js';

/** One operator of a stage. */
export interface ExplainedOperator {
  readonly id: number;
  readonly name: string;
  readonly words: string;
  readonly site: string;
  readonly isCached: boolean;
}

/** Operators that run as one task per partition, up to the next shuffle. */
export interface ExplainedStage {
  readonly id: number;
  readonly partitions: number;
  /** Sources first. */
  readonly operators: readonly ExplainedOperator[];
  /** Stages whose output it reads, and how their rows were spread. */
  readonly reads: readonly { readonly stage: number; readonly words: string }[];
  /** Where tasks go by preference, in words. */
  readonly locality: string;
  /** What happened, once it ran. */
  readonly report: StageReport | undefined;
}

/** What an action would run: stages, their operators, and how rows travel between them. */
export interface PlanExplanation {
  readonly ranks: number;
  readonly shuffle: { readonly name: string; readonly reason: string };
  readonly memoryBytes: number;
  readonly stages: readonly ExplainedStage[];
  /** All of it for people. */
  toString(): string;
}

export async function explainPlan(engine: Engine, node: PlanNode): Promise<PlanExplanation> {
  const plan = await engine.prepare(node);
  // The last job over the same node tells what happened.
  const ran = engine.outcomeOf(node);
  const stages = plan.stages.map((stage) => explainStage(stage, plan, engine.world.size, ran?.report?.stages[stage.id]));
  const { name, reason } = engine.choice;
  const explanation = { ranks: engine.world.size, shuffle: { name, reason }, memoryBytes: engine.settings.memoryBytes, stages };
  return { ...explanation, toString: () => textOf(explanation) };
}

function explainStage(stage: Stage, plan: StagePlan, size: number, report: StageReport | undefined): ExplainedStage {
  return {
    id: stage.id,
    partitions: stage.node.partitions,
    operators: stage.nodes.map(({ id, name, words, site, isCached }) => ({ id, name, words, site, isCached })),
    reads: stage.inputs.map((input) => ({ stage: plan.producers.get(input)?.id ?? -1, words: input.words })),
    locality: localityOf(stage, size),
    report,
  };
}

function localityOf(stage: Stage, size: number): string {
  if (stage.nodes.some(({ isCached }) => isCached)) return 'where the partition is cached, else any rank';
  if (stage.inputs.length > 0) return 'the rank that has most of its blocks, where one has much more than the others';
  const preferred = stage.nodes[0].preferred(0, size);
  return preferred.length > 0 ? `rank ${preferred.join(' or ')} and so on` : 'any rank: every rank can read the source';
}

function bytesInWords(bytes: number): string {
  if (bytes < 1e3) return `${bytes} B`;
  const power = Math.min(4, Math.floor(Math.log10(bytes) / 3));
  return `${(bytes / 10 ** (3 * power)).toPrecision(3)} ${['B', 'KB', 'MB', 'GB', 'TB'][power]}`;
}

function textOf({ ranks, shuffle, memoryBytes, stages }: Omit<PlanExplanation, 'toString'>): string {
  const lines = [
    `${stages.length} ${stages.length === 1 ? 'stage' : 'stages'} on ${ranks} ranks, ${bytesInWords(memoryBytes)} of memory each`,
    `shuffle: ${shuffle.name} (${shuffle.reason})`,
  ];
  for (const { id, partitions, operators, reads, locality, report } of stages) {
    lines.push('', `stage ${id}: ${partitions} tasks; ${locality}`);
    for (const { stage, words } of reads) lines.push(`  <= stage ${stage}, ${words}`);
    for (const { name, words, site, isCached } of operators) {
      lines.push(
        `  ${name}${words === '' ? '' : ` (${words})`}${isCached ? ' [cached]' : ''}${site === '' ? '' : `   at ${site}`}`,
      );
    }
    if (report) {
      const extra = [
        report.recomputed > 0 ? `${report.recomputed} recomputed` : '',
        report.speculative > 0 ? `${report.speculative} started twice` : '',
        report.spilledBytes > 0 ? `${bytesInWords(report.spilledBytes)} spilled` : '',
      ].filter((one) => one !== '');
      lines.push(
        `  ran ${report.ms.toFixed(0)} ms, ${report.attempts} attempts, tasks by rank ${report.byRank.join(', ')}, ${report.local} where their data was; ` +
          `${bytesInWords(report.bytesOut)} out${extra.length > 0 ? `; ${extra.join(', ')}` : ''}`,
      );
    }
  }
  return `${lines.join('\n')}\n`;
}
