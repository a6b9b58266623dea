/**
 * The search for a training plan: every legal (data, tensor, pipeline, micro-batch), each with the pipeline schedule and recomputation that suit it best, sorted by time;
 * and for every loser the reason.
 */
import type { PipelineName } from '../../schedule/pipeline.js';
import { PlanRefusal } from '../refusal.js';
import type { Cluster } from './cluster.js';
import type { Recompute } from './memory.js';
import type { Model } from './model.js';
import { pipelineNames } from './pipeline-cost.js';
import { costPlan, type PlanChoice, type PlanCost } from './plan.js';

export interface SearchOptions {
  /** Schedules to try. Default all. */
  readonly schedules?: readonly PipelineName[];
  /** Default all three. */
  readonly recompute?: readonly Recompute[];
  /** Fixed parts of the plan, e.g. `{ tensor: 8 }`. Default none. */
  readonly fixed?: Partial<PlanChoice>;
}

export interface RankedPlan {
  readonly cost: PlanCost;
  /** Why it lost against the best; empty for the best. */
  readonly reason: string;
}

/** The best plan, and the others with what they lose by. */
export interface SearchResult {
  readonly best: PlanCost;
  /** All that fit, fastest first, then those that do not fit. One per (data, tensor, pipeline, micro-batch). */
  readonly ranked: readonly RankedPlan[];
  readonly considered: number;
}

/** @throws PlanRefusal when nothing is legal, or nothing fits in memory. */
export function searchPlans(model: Model, cluster: Cluster, options: SearchOptions = {}): SearchResult {
  const devices = cluster.hosts * cluster.devicesPerHost;
  const fixed = options.fixed ?? {};
  const chosen: PlanCost[] = [];
  let considered = 0;
  let lastRefusal: PlanRefusal | undefined;
  for (const tensor of fixed.tensor === undefined ? divisors(devices).filter((t) => model.heads % t === 0) : [fixed.tensor]) {
    for (const pipeline of fixed.pipeline === undefined
      ? divisors(devices / tensor).filter((p) => model.layers % p === 0)
      : [fixed.pipeline]) {
      const data = fixed.data ?? devices / tensor / pipeline;
      for (const microBatch of fixed.microBatch === undefined ? [1, 2, 4, 8, 16] : [fixed.microBatch]) {
        const variants: PlanCost[] = [];
        for (const schedule of pipeline === 1 ? (['1f1b'] as const) : (options.schedules ?? pipelineNames)) {
          for (const recompute of options.recompute ?? (['none', 'selective', 'full'] as const)) {
            try {
              variants.push(costPlan(model, cluster, { ...fixed, data, tensor, pipeline, microBatch, schedule, recompute }));
              considered++;
            } catch (error) {
              if (!(error instanceof PlanRefusal)) throw error;
              lastRefusal = error;
            }
          }
        }
        if (variants.length > 0) chosen.push(variants.reduce((best, next) => (better(next, best) ? next : best)));
      }
    }
  }
  if (chosen.length === 0) throw lastRefusal ?? new PlanRefusal(`no plan is legal for ${model.name} on ${devices} devices`);
  chosen.sort((a, b) => (better(a, b) ? -1 : better(b, a) ? 1 : 0));
  const best = chosen[0];
  if (!best.fits) {
    const need = Math.ceil(best.memory.total / 1e9);
    const smallest = chosen.reduce((least, next) => (next.memory.total < least.memory.total ? next : least));
    throw new PlanRefusal(
      `${model.name} does not fit on ${devices} x ${cluster.device.name}: the smallest plan needs ${Math.ceil(smallest.memory.total / 1e9)} GB of ${Math.floor(best.memory.limit / 1e9)} GB a device`,
      `${nextCount(devices, smallest.memory.total / smallest.memory.limit, cluster.devicesPerHost)} devices (estimated; fastest plan needs ${need} GB)`,
    );
  }
  return { best, considered, ranked: chosen.map((cost) => ({ cost, reason: cost === best ? '' : whyLost(cost, best) })) };
}

function better(a: PlanCost, b: PlanCost): boolean {
  if (a.fits !== b.fits) return a.fits;
  return a.fits ? a.seconds.total < b.seconds.total : a.memory.total < b.memory.total;
}

const words = {
  compute: 'computing',
  recompute: 'recomputation',
  tensor: 'tensor-parallel exchange',
  boundary: 'stage boundaries',
  bubble: 'pipeline bubble',
  data: 'exposed gradient exchange',
} as const;

/** The reason in one line: memory, or the part that grew most against the best plan. */
function whyLost(cost: PlanCost, best: PlanCost): string {
  if (!cost.fits) return `needs ${(cost.memory.total / 1e9).toFixed(0)} GB of ${(cost.memory.limit / 1e9).toFixed(0)} GB`;
  let worst: keyof typeof words = 'compute';
  for (const part of Object.keys(words) as (keyof typeof words)[]) {
    if (cost.seconds[part] - best.seconds[part] > cost.seconds[worst] - best.seconds[worst]) worst = part;
  }
  const slower = (cost.seconds.total / best.seconds.total - 1) * 100;
  const more = cost.seconds[worst] - best.seconds[worst];
  return `${slower.toFixed(1)} % slower: ${words[worst]} +${(more * 1e3).toFixed(0)} ms`;
}

function divisors(n: number): number[] {
  return Array.from({ length: n }, (_, i) => i + 1).filter((d) => n % d === 0);
}

function nextCount(devices: number, factor: number, perHost: number): number {
  return Math.ceil((devices * factor) / perHost) * perHost;
}
