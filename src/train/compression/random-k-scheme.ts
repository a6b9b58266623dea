/** All ranks draw the same places in every step, so the numbers there can be added up by an all-reduce, exactly; places need not travel. */
import type { BucketTimes } from '../gradient-exchange.js';
import { addInto, randomKDecode, randomKEncode } from './kernels.js';
import { arenaFloats, FirstCall, type Scheme, type SchemeContext } from './scheme.js';

const SEED = 0x5eed;

export class RandomKScheme implements Scheme {
  readonly #context: SchemeContext;
  readonly #values: Float32Array;
  readonly #rest: Float32Array;
  readonly #call: FirstCall;

  constructor(context: SchemeContext, ratio: number) {
    const { communicator, device, gradients } = context;
    this.#context = context;
    this.#values = arenaFloats(device, Math.min(gradients.length, Math.ceil(ratio * gradients.length)));
    this.#rest = new Float32Array(gradients.length);
    this.#call = new FirstCall(communicator.prepareAllreduce(this.#values, 'sum'), context.background);
  }

  get sentBytes(): number {
    const { size } = this.#context.communicator;
    return (2 * (size - 1) * this.#values.byteLength) / size;
  }

  begin(step: number): void {
    const { bucket, gradients, errorFeedback } = this.#context;
    addInto(this.#rest, gradients);
    randomKEncode(this.#rest, this.#values, SEED + bucket.index, step);
    if (!errorFeedback) this.#rest.fill(0);
    this.#call.begin();
  }

  wait(): Promise<void> {
    return this.#call.wait();
  }

  finish(step: number): void {
    this.#call.finish();
    const { bucket, gradients } = this.#context;
    randomKDecode(this.#values, gradients, SEED + bucket.index, step);
  }

  times(): BucketTimes {
    return { bucket: this.#context.bucket, ...this.#call.times };
  }
}
