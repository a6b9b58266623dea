/**
 * Moves the state of a machine from one thread to another: as numbers in shared memory.
 *
 *     a machine:   copyState(s) { this.una = s.number(this.una); this.isReady = s.flag(this.isReady); ... }
 *     saving:      every value is put down and handed back as it is
 *     loading:     every value is taken from where it was put
 *
 * One list of fields serves both directions, so that they cannot drift apart. The order is the one of native/rc-fast.h, where the usual packets
 * work on the numbers themselves:
 *
 *     [ VERSION | OWNED | what copyState puts down ... ]        VERSION grows with every change; OWNED is 1 while a machine has taken the values
 */

const VERSION = 0;
const OWNED = 1;
const FIRST = 2;

export class StateCopy {
  /** Takes values instead of putting them down. */
  isLoading = false;
  /** The numbers themselves, for who knows their places. */
  readonly words: Float64Array;
  private at = 0;
  /** The version that this thread's machine has. */
  private seen = -1;

  /** @param buffer as many numbers of 8 bytes as the machine has values, and two. */
  constructor(buffer: SharedArrayBuffer) {
    this.words = new Float64Array(buffer);
  }

  /** The machine takes the values over. False when it has them already: nothing need be loaded. */
  own(): boolean {
    this.words[OWNED] = 1;
    return this.begin(true, this.words[VERSION] !== this.seen);
  }

  /** The machine is going to put its values down. */
  disown(): this {
    this.words[OWNED] = 0;
    this.words[VERSION]++;
    this.begin(false, true);
    return this;
  }

  private begin(isLoading: boolean, isNeeded: boolean): boolean {
    this.isLoading = isLoading;
    this.at = FIRST;
    this.seen = this.words[VERSION];
    return isNeeded;
  }

  /** Leaves room for values that there are not at present. */
  skip(count: number): void {
    this.at += count;
  }

  number(value: number): number {
    const i = this.at++;
    if (this.isLoading) return this.words[i];
    this.words[i] = value;
    return value;
  }

  flag(value: boolean): boolean {
    return this.number(value ? 1 : 0) !== 0;
  }
}
