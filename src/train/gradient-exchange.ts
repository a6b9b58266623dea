/**
 * How the gradients of the ranks become one update: the one place where the ways of training differ.
 *
 * The training loop is the same for all of them. Backward reports gradient ranges from the end to the start; the loop gathers them into buckets and
 * hands each to the exchange as soon as it is final, so that it travels while earlier layers still compute:
 *
 *   loop:      start(step) ── forward ── backward ──────────────────────────── finish() ── optimizer.step, where the gradients are new
 *                                          │ begin(bucket 0)  │ begin(bucket 1)    ▲
 *   exchange:                              └── in the background ──────────────────┘
 *
 * - all-reduce (all-reduce-exchange.ts) leaves the gradient of the mean loss of all ranks in `gradients`; every rank applies its own optimizer.
 * - compressed all-reduce (compression/) leaves there what came out of compressing, with what was lost kept for the next step.
 * - parameter servers (parameter-server/) apply the optimizer themselves and leave new `parameters`.
 *
 * An exchange is made for one communicator. When a rank is lost, the loop closes the exchange and makes another one for those who are left; what
 * `begin` had started for the step that was not finished must never be applied.
 */
import type { Communicator } from '../collectives/index.js';
import type { World } from '../launch/index.js';
import type { Optimizer, ParameterRange } from '../nn/index.js';
import type { Device } from '../verbs/index.js';

/** A stretch of the flat gradient that travels as one: elements `from` up to, not including, `to`. */
export interface Bucket {
  /** 0 is the one that is final first: the end of the gradient. */
  readonly index: number;
  readonly from: number;
  readonly to: number;
}

/** What the exchange learns about a step before its first bucket. */
export interface StepStart {
  /** Steps done before this one, from 0; the same at all ranks in synchronous modes. */
  readonly step: number;
  /** Samples of this rank. May be 0 in the last step of an epoch. */
  readonly ownSamples: number;
  /** Samples of all ranks. */
  readonly globalSamples: number;
  readonly learningRate: number;
}

/** What an exchange made of a step. */
export interface StepExchanged {
  /**
   * What is new. 'gradients': `gradients` hold the gradient to apply, and the loop steps the optimizer. 'parameters': `parameters` hold the result of the
   * step already; the loop must not. 'nothing': no rank came before the deadline.
   */
  readonly updated: 'gradients' | 'parameters' | 'nothing';
  /** Samples whose gradients are in the update. Fewer than all when late ones were dropped; undefined when nobody knows (asynchronous modes). */
  readonly samples: number | undefined;
  /** Steps that are in the parameters since `start`; more than 1 where others went on without this rank. Default 1. */
  readonly steps?: number;
  /** The own gradients came too late and are not in the update. Default false. */
  readonly late?: boolean;
}

/** Running totals of an exchange, for the share of communication in the step. */
export interface ExchangeTotals {
  /** Time during which the exchange moved or combined bytes, ms. May overlap with computing. */
  readonly transferMs: number;
  /** Time spent waiting for a slower rank inside the exchange, ms. */
  readonly waitMs: number;
  /** Bytes this rank sent or read from peers. */
  readonly bytes: number;
}

/** When a bucket of the last step travelled; ms of the machine's monotonic clock (clock.ts). */
export interface BucketTimes {
  readonly bucket: Bucket;
  /** This rank began it. */
  readonly beganMs: number;
  /** All whom it needs had come: until here it waited. */
  readonly metMs: number;
  readonly endedMs: number;
}

export interface GradientExchange {
  /** Such as `allreduce`, `ps`, `top-k`. */
  readonly name: string;
  /**
   * What the gradients handed over are a gradient of. 'global': of (sum of own losses) / (samples of all ranks), so that the SUM over ranks is the gradient of
   * the mean loss, also when ranks have different numbers of samples. 'own': of the mean loss of the own samples (asynchronous modes).
   */
  readonly weighting: 'global' | 'own';
  /** Begins a step, before its first bucket. */
  start(step: StepStart): void;
  /** The bucket's gradients are final. Starts their exchange and returns at once; the loop writes the bucket again only after `finish`. Buckets come in order. */
  begin(bucket: Bucket): void;
  /** Ends the step: all buckets have arrived. @throws RankLost and others of the communicator when the step could not be completed; nothing of it was applied. */
  finish(): Promise<StepExchanged>;
  /**
   * Brings the parameters of all ranks together, in modes that let them drift apart (asynchronous, local steps). All ranks call it before evaluation, a
   * checkpoint and the end. Default: they never drift.
   */
  settle?(): Promise<void>;
  /** When the buckets of the last step travelled, for traces and for the share of waiting. Default: not known. */
  times?(): readonly BucketTimes[];
  /** Totals since the exchange was made. */
  totals(): ExchangeTotals;
  /** Gives up what it holds. Idempotent. */
  close(): Promise<void>;
}

/** What an exchange is made from. */
export interface ExchangeContext {
  /** The ranks that train together. */
  readonly communicator: Communicator;
  /** The world they live in; undefined when the communicator was made without one. */
  readonly world: World | undefined;
  /** Parameters and gradients lie in its arena memory. */
  readonly device: Device;
  /** Flat, in arena memory, not moved for as long as the exchange lives. */
  readonly parameters: Float32Array;
  readonly gradients: Float32Array;
  /** The tensors in the flat arrays. */
  readonly ranges: readonly ParameterRange[];
  /** Together they cover the gradients exactly, from the end to the start. */
  readonly buckets: readonly Bucket[];
  /** The rank's own optimizer: its kind and its state's size tell a server what to keep. */
  readonly optimizer: Optimizer;
}

/** Makes an exchange; all ranks of the communicator call it with the same options. */
export type MakeExchange = (context: ExchangeContext) => Promise<GradientExchange>;
