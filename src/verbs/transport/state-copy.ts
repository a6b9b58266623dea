/**
 * Moves the state of a machine from one thread to another: as numbers in shared memory.
 *
 *     a machine:   copyState(s) { this.una = s.number(this.una); this.isReady = s.flag(this.isReady); ... }
 *     saving:      every value is put down and handed back as it is
 *     loading:     every value is taken from where it was put
 *
 * One list of fields serves both directions, so that they cannot drift apart.
 */

export class StateCopy {
  /** Takes values instead of putting them down. */
  isLoading = false;
  private readonly words: Float64Array;
  private at = 0;

  /** @param buffer as many numbers of 8 bytes as the machine has values. */
  constructor(buffer: SharedArrayBuffer) {
    this.words = new Float64Array(buffer);
  }

  /** Begins anew, in one direction. */
  start(isLoading: boolean): this {
    this.isLoading = isLoading;
    this.at = 0;
    return this;
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
