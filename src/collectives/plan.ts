/** From requests to plans: which algorithm runs, how, and why. Plans are kept, because the same shapes come again and again. */

import type { Collective, Schedule } from '../schedule/schedule.js';
import type { Topology } from '../schedule/topology.js';
import type { Shape } from './algorithm.js';
import type { Machine } from './machine.js';
import { type Override, parseOverride } from './override.js';
import { type Request, WIDTHS } from './request.js';
import { type Selection, selectAlgorithm } from './selection.js';
import type { Method } from './shared-memory/call.js';

export interface Plan {
  readonly method: Method;
  /** Undefined where the call is over with what every call begins with. */
  readonly selection: Selection | undefined;
  /** What is run with the method 'program'. */
  readonly schedule: Schedule | undefined;
}

/** Up to this many bytes a call fits into the entry slots of shared memory. */
const SLOT_BYTES = 4064;
const IN_SLOTS: ReadonlySet<Collective> = new Set([
  'allreduce',
  'reduce-scatter',
  'all-gather',
  'broadcast',
  'reduce',
  'gather',
  'scatter',
  'all-to-all',
  'scan',
  'barrier',
]);
const MOST_PLANS = 512;

export interface PlannerInit {
  readonly size: number;
  /** Ranks reach each other's memory. */
  readonly isShared: boolean;
  readonly machine: Machine;
  readonly override: Override | undefined;
  /** Where the ranks live, where that makes a difference. */
  readonly topology: Topology | undefined;
}

export class Planner {
  readonly #init: PlannerInit;
  readonly #machine: Machine;
  readonly #plans = new Map<string, Plan>();

  constructor(init: PlannerInit) {
    this.#init = init;
    const { machine, isShared } = init;
    this.#machine = isShared ? machine : { ...machine, offers: machine.offers?.filter((offer) => offer !== 'shared-memory') };
  }

  /** @throws RangeError when no algorithm is left. */
  plan({ collective, count, type, root = 0, counts = [], shards, only }: Request): Plan {
    const bytes = count * WIDTHS[type];
    const uneven = counts.some((list) => list !== undefined);
    const key = `${collective} ${bytes} ${root} ${uneven} ${shards}`;
    let plan = this.#plans.get(key);
    if (plan !== undefined) return plan;
    const { size, isShared, override, topology } = this.#init;
    const isFree = override?.get(collective) === undefined;
    // Over messages, what a call begins with is a barrier already.
    const fits = isShared ? !uneven && bytes <= SLOT_BYTES && IN_SLOTS.has(collective) : collective === 'barrier';
    if (isFree && fits) {
      plan = { method: 'slots', selection: undefined, schedule: undefined };
    } else {
      const shape = { size, bytes, root, topology, shards };
      plan = this.#byCost(uneven ? { ...shape, segments: 1 } : shape, collective, only);
    }
    if (this.#plans.size >= MOST_PLANS) this.#plans.clear();
    this.#plans.set(key, plan);
    return plan;
  }

  #byCost(shape: Shape, collective: Collective, only: string | undefined): Plan {
    const machine =
      shape.shards === undefined
        ? this.#machine
        : { ...this.#machine, offers: [...(this.#machine.offers ?? []), 'shards' as const] };
    const override = only === undefined ? this.#init.override : parseOverride(`${collective}:${only}`);
    const selection = selectAlgorithm(collective, shape, machine, override);
    const fused = collective === 'allreduce' || collective === 'all-to-all';
    if (fused && selection.algorithm.name === 'shared-direct') return { method: 'direct', selection, schedule: undefined };
    return { method: 'program', selection, schedule: selection.algorithm.schedule(selection.shape) };
  }
}
