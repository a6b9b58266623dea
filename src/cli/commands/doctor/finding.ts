/** What the doctor found: one fact about the machine, whether it is good, and what to do when it is not. */

/** ok: as it should be; note: works, but worth knowing; problem: something will not work. */
export type Level = 'ok' | 'note' | 'problem';

export interface Finding {
  /** Heading under which it is shown. */
  readonly area: string;
  /** What was looked at. */
  readonly what: string;
  readonly level: Level;
  /** What was found, a few words. */
  readonly found: string;
  /** What it means or what to do; absent when there is nothing to do. */
  readonly advice?: string;
  /** The same in numbers, for programs. */
  readonly data?: unknown;
}
