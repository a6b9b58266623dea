/** Whom the operations of UCX that go on belong to, by their numbers. The addon uses numbers again, so nothing is allocated for one more message. */

/** Told of the end of an operation; what an atomic found stands in two words. */
export type AfterOperation = (status: number, words: Int32Array, at: number) => void;

export class Operations {
  /** Handles of the requests that end with them, or -1. */
  readonly #request: number[] = [];
  readonly #memory: (Uint8Array | undefined)[] = [];
  readonly #after: (AfterOperation | undefined)[] = [];

  /** An operation goes on: `memory` is kept until its end. */
  begin(number: number, memory: Uint8Array | undefined, request: number, after: AfterOperation | undefined): void {
    while (this.#request.length <= number) {
      this.#request.push(-1);
      this.#memory.push(undefined);
      this.#after.push(undefined);
    }
    this.#request[number] = request;
    this.#memory[number] = memory;
    this.#after[number] = after;
  }

  /** Handle of the request that ends with an operation; -1: none does, or nobody waits for the operation. */
  request(number: number): number {
    return this.#request[number] ?? -1;
  }

  /** It is over: its memory is let go. Returns who is told of it, if anybody is. */
  end(number: number): AfterOperation | undefined {
    if (number >= this.#request.length) return undefined;
    const after = this.#after[number];
    this.#request[number] = -1;
    this.#memory[number] = undefined;
    this.#after[number] = undefined;
    return after;
  }
}
