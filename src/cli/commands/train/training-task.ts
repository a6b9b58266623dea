/** What the ranks of a training are told, and what they say: one JSON line for each message, on stdout. */

import type { CheckpointWriter, FitReport, MeanStep, MemberChange, SharedEvaluation } from '../../../train/index.js';

export const MODES = ['allreduce', 'local', 'ps', 'async', 'ssp'] as const;
export type Mode = (typeof MODES)[number];

export const ARCHITECTURES = ['cnn', 'mlp'] as const;
export type ArchitectureName = (typeof ARCHITECTURES)[number];

export interface TrainingTask {
  /** Undefined: a newcomer that asks to be let in. */
  readonly rank: number | undefined;
  readonly size: number;
  readonly model: ArchitectureName;
  /** 'sgd': with momentum 0.9. */
  readonly optimizer: 'adam' | 'sgd';
  /** Samples of one rank in a step, at the start; the global batch stays when ranks come and go. */
  readonly batch: number;
  readonly epochs: number;
  /** Stop after so many steps; undefined: after the epochs. */
  readonly steps: number | undefined;
  readonly reportEvery: number;
  readonly learningRate: number;
  readonly seed: number;
  readonly mode: Mode;
  /** Parameter servers: ranks that a step goes on without when they are late. */
  readonly backups: number;
  readonly compress: string | undefined;
  readonly accumulate: number;
  /** Samples that come later are left out, ms; undefined: none. */
  readonly deadlineMs: number | undefined;
  /** Faster ranks get more samples. */
  readonly balance: boolean;
  readonly bucketBytes: number | undefined;
  readonly shards: number | undefined;
  /** Evaluate on the test images after every epoch. */
  readonly evaluate: boolean;
  /** The last rank kills itself before this step. */
  readonly killAt: number | undefined;
  readonly onLoss: 'shrink' | 'throw';
  readonly checkpoints: { readonly directory: string; readonly everySteps: number; readonly resume: boolean } | undefined;
  /** Where weights and the timeline of this rank go; undefined: nowhere. */
  readonly output: string | undefined;
  readonly trace: boolean;
}

export type TrainingMessage =
  | {
      readonly type: 'ready';
      readonly parameters: number;
      readonly buckets: readonly number[];
      readonly exchange: string;
      readonly blas: string;
      readonly restored: number;
    }
  | ({ readonly type: 'report' } & FitReport)
  | ({ readonly type: 'epoch'; readonly epoch: number; readonly seconds: number } & Omit<SharedEvaluation, 'wrong'>)
  | ({ readonly type: 'members' } & MemberChange)
  | { readonly type: 'bad-checkpoint'; readonly step: number; readonly reason: string }
  | {
      readonly type: 'done';
      readonly steps: number;
      readonly samples: number;
      readonly ms: number;
      readonly meanStep: MeanStep;
      readonly wrong: SharedEvaluation['wrong'];
      readonly plan: readonly { readonly bucketBytes: number; readonly buckets: number; readonly exposedMs: number }[];
      readonly checkpoints: CheckpointWriter['totals'] | undefined;
    };
