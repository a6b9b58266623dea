/** What the driver knows of a job: its stages, their tasks, and the attempts of each. */

import type { Stage, StagePlan } from '../plan/stages.js';
import type { MapStatus } from '../shuffle/manager.js';
import type { ErrorWords, JobReport } from './protocol.js';

interface Attempt {
  readonly rank: number;
  readonly since: number;
}

export interface TaskState {
  isDone: boolean;
  /** Its additions to accumulators have been counted: they count once, however often it runs. */
  wasCounted: boolean;
  failures: number;
  lostBlocks: number;
  attempts: number;
  lastWasUsers: boolean;
  readonly running: Map<number, Attempt>;
  status: MapStatus | undefined;
  value: Uint8Array | undefined;
}

export interface StageState {
  readonly stage: Stage;
  readonly tasks: TaskState[];
  readonly times: number[];
  begun: number;
  ended: number;
  done: number;
  speculative: number;
  recomputed: number;
  local: number;
  rowsOut: number;
  bytesOut: number;
  spilledBytes: number;
  readonly byRank: number[];
  /** The block list of its output went to all ranks. */
  told: boolean;
}

export interface Job {
  readonly plan: StagePlan;
  readonly stages: StageState[];
  readonly additions: Map<number, unknown>;
  readonly begun: number;
  readonly lost: number[];
  readonly resolve: (end: { values: Uint8Array[] | undefined; error: ErrorWords | undefined; report: JobReport }) => void;
  isOver: boolean;
}

function newTask(): TaskState {
  return {
    isDone: false,
    wasCounted: false,
    failures: 0,
    lostBlocks: 0,
    attempts: 0,
    lastWasUsers: false,
    running: new Map(),
    status: undefined,
    value: undefined,
  };
}

export function newStage(stage: Stage, size: number): StageState {
  return {
    stage,
    tasks: Array.from({ length: stage.node.partitions }, newTask),
    times: [],
    begun: 0,
    ended: 0,
    done: 0,
    speculative: 0,
    recomputed: 0,
    local: 0,
    rowsOut: 0,
    bytesOut: 0,
    spilledBytes: 0,
    byRank: new Array<number>(size).fill(0),
    told: false,
  };
}

export function medianOf(times: readonly number[]): number {
  const sorted = [...times].sort((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? 0;
}

export function reportOf(job: Job): JobReport {
  return {
    job: job.plan.job,
    ms: performance.now() - job.begun,
    lostRanks: job.lost,
    stages: job.stages.map((state) => ({
      stage: state.stage.id,
      tasks: state.tasks.length,
      attempts: state.tasks.reduce((sum, { attempts }) => sum + attempts, 0),
      speculative: state.speculative,
      recomputed: state.recomputed,
      local: state.local,
      ms: Math.max(0, (state.ended || performance.now()) - state.begun),
      rowsOut: state.rowsOut,
      bytesOut: state.bytesOut,
      spilledBytes: state.spilledBytes,
      byRank: state.byRank,
    })),
  };
}
