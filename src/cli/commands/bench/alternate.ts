/**
 * Measures several subjects side by side: after everybody's warm-up, one round of each in turn, then the next round, so that whatever
 * the machine does meanwhile happens to all of them.
 */

import type { CpuPair } from '../../cpus.js';
import type { BenchCase } from './case.js';
import { median, type Summary, summarize } from './statistics.js';
import type { SessionDetails, Subject } from './subject.js';

export interface AlternateOptions {
  readonly rounds: number;
  /** Length of one round of one subject. */
  readonly roundMs: number;
  readonly cpus: CpuPair;
  readonly signal: AbortSignal;
  /** Point in time of performance.now() after which no further round starts. */
  readonly deadline: number;
  readonly progress: (line: string) => void;
}

export interface Measured {
  readonly who: string;
  readonly summary: Summary;
  /** The median of every round. */
  readonly medians: readonly number[];
  readonly details: SessionDetails;
  /** Payloads were checked. */
  readonly verified: boolean;
}

export interface AlternateResult {
  readonly measured: readonly Measured[];
  /** Subjects that broke, with the reason. */
  readonly failed: Readonly<Record<string, string>>;
}

const WARM_UP_FACTOR = 1.5;
/** Engines compile what runs hot; short rounds do not shorten that. */
const LEAST_WARM_UP_MS = 500;

/** Runs the case. The first subject is ours: its failure is thrown, the failure of another is reported in `failed`. */
export async function alternate(
  bench: BenchCase,
  subjects: readonly Subject[],
  options: AlternateOptions,
): Promise<AlternateResult> {
  const failed: Record<string, string> = {};
  const running: { subject: Subject; session: Awaited<ReturnType<Subject['start']>>; rounds: (readonly number[])[] }[] = [];
  const attempt = async (subject: Subject, act: () => Promise<void>): Promise<void> => {
    options.signal.throwIfAborted();
    try {
      await act();
    } catch (error) {
      options.signal.throwIfAborted();
      if (subject === subjects[0]) throw error;
      failed[subject.who] = error instanceof Error ? error.message : String(error);
    }
  };
  try {
    for (const subject of subjects) {
      await attempt(subject, async () => {
        const session = await subject.start(bench, options.cpus, options.signal);
        running.push({ subject, session, rounds: [] });
        await session.verify?.();
        await session.warmUp(Math.max(LEAST_WARM_UP_MS, options.roundMs * WARM_UP_FACTOR));
      });
    }
    for (let round = 0; round < options.rounds; round++) {
      const start = performance.now();
      for (const { subject, session, rounds } of running) {
        if (failed[subject.who] !== undefined) continue;
        await attempt(subject, async () => {
          rounds.push(await session.round(options.roundMs));
        });
      }
      options.progress(`round ${round + 1} of ${options.rounds}`);
      const took = performance.now() - start;
      if (performance.now() + took > options.deadline) break;
    }
    const measured: Measured[] = [];
    for (const { subject, session, rounds } of running) {
      if (failed[subject.who] !== undefined) continue;
      await attempt(subject, async () => {
        await session.verify?.();
        const verified = session.verify !== undefined;
        const medians = rounds.map(median);
        measured.push({ who: subject.who, summary: summarize(rounds), medians, details: session.describe(), verified });
      });
    }
    return { measured, failed };
  } finally {
    await Promise.all(running.map(({ session }) => session.close()));
  }
}
