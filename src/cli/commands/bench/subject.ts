/**
 * Something that can be measured: Verbena itself, or another system beside it. One file each; the runner treats them alike.
 *
 * A session stays open over all rounds; whether its processes do is its own affair. It must use no CPU between rounds, because then another subject is being measured.
 */

import type { CpuPair } from '../../cpus.js';
import type { BenchCase } from './case.js';

export interface Session {
  /** Before the first round: warms up, chooses the best setting, finds how much work fits the time. About `durationMs` of work. */
  warmUp(durationMs: number): Promise<void>;
  /** Measures for about `durationMs` and returns a value per batch, in the unit of the metric. */
  round(durationMs: number): Promise<readonly number[]>;
  /** Checks that payloads arrive whole, outside the timing. Absent where the other system offers no way. */
  verify?(): Promise<void>;
  /** How it was run, for the report. Read after the last round. */
  describe(): SessionDetails;
  close(): Promise<void>;
}

export interface SessionDetails {
  /** What exactly was measured, such as the name of the peer's test. */
  readonly what: string;
  /** A line that repeats the measurement by hand. */
  readonly command?: string;
  /** What the other program printed in its last round. */
  readonly raw?: string;
}

export interface Subject {
  /** 'verbena/shm', 'ucx', ... */
  readonly who: string;
  /** Why this system has nothing to compare with the case, or undefined. */
  unfit(bench: BenchCase): string | undefined;
  /** Why it cannot run here, with the command that installs it; or undefined. */
  missing(): Promise<Missing | undefined>;
  start(bench: BenchCase, cpus: CpuPair, signal: AbortSignal): Promise<Session>;
}

export interface Missing {
  readonly reason: string;
  /** The command that installs it. */
  readonly install: string;
}
