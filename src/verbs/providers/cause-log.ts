/** The causes of failed requests under the numbers that completions carry: the last 1,024 of them. */

import type { Cause } from '../status.js';

const MOST = 1024;

export class CauseLog {
  private readonly causes: (Cause | undefined)[] = [];
  private last = 0;

  /** Keeps a cause and returns its number, 1 or more. */
  note(cause: Cause): number {
    this.last++;
    this.causes[this.last % MOST] = cause;
    return this.last;
  }

  find(causeId: number): Cause | undefined {
    const isKept = causeId > 0 && causeId > this.last - MOST && causeId <= this.last;
    return isKept ? this.causes[causeId % MOST] : undefined;
  }
}
