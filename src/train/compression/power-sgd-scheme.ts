/**
 * PowerSGD: every weight matrix M (rows x columns) is sent as P Q^T, with `rank` columns each; one step of the power iteration a training step.
 *
 *   P = M Q            Q of the step before: it turns towards the gradient's main directions
 *   all-reduce P       a sum of products is the product of the sum
 *   P = orthonormal columns of P
 *   Q = M^T P          all-reduce Q
 *   gradient = P Q^T   what M has beside it waits for the next step
 *
 * Vectors, and matrices that would not get smaller, travel in the first all-reduce as they are.
 *
 * Vogels, Karimireddy, Jaggi: PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization (2019).
 */
import type { PreparedCall } from '../../collectives/index.js';
import { Random } from '../../nn/random.js';
import type { BucketTimes } from '../gradient-exchange.js';
import { addInto, multiply, orthonormalize } from './kernels.js';
import { arenaFloats, FirstCall, type Scheme, type SchemeContext } from './scheme.js';

interface Factored {
  readonly from: number;
  readonly to: number;
  readonly rows: number;
  readonly columns: number;
  readonly rank: number;
  /** In the two all-reduced vectors. */
  readonly p: Float32Array;
  readonly q: Float32Array;
}

interface Plain {
  readonly from: number;
  readonly to: number;
  readonly values: Float32Array;
}

/** Rows and columns of a tensor as a matrix, or undefined when `rank` columns are no saving. */
export function factorShape(shape: readonly number[], rank: number): { rows: number; columns: number; rank: number } | undefined {
  if (shape.length < 2) return undefined;
  const rows = shape[0];
  const columns = shape.slice(1).reduce((product, size) => product * size, 1);
  const least = Math.min(rank, rows, columns);
  return least * (rows + columns) < rows * columns ? { rows, columns, rank: least } : undefined;
}

export class PowerSgdScheme implements Scheme {
  readonly #context: SchemeContext;
  readonly #factored: Factored[] = [];
  readonly #plain: Plain[] = [];
  /** All P, then what travels as it is. */
  readonly #first: Float32Array;
  /** All Q. */
  readonly #second: Float32Array;
  readonly #rest: Float32Array;
  /** P Q^T of this rank's own Q, or of all. */
  readonly #product: Float32Array;
  readonly #firstCall: FirstCall;
  readonly #secondCall: PreparedCall;

  constructor(context: SchemeContext, rank: number) {
    const { communicator, device, gradients, ranges, bucket } = context;
    this.#context = context;
    const shapes = ranges.map((range) => ({ range, factors: factorShape(range.shape, rank) }));
    const size = ({ range, factors }: (typeof shapes)[number]) =>
      factors === undefined ? range.to - range.from : factors.rank * factors.rows;
    this.#first = arenaFloats(
      device,
      shapes.reduce((sum, one) => sum + size(one), 0),
    );
    this.#second = arenaFloats(
      device,
      shapes.reduce((sum, { factors }) => sum + (factors === undefined ? 0 : factors.rank * factors.columns), 0),
    );
    let [p, q, largest] = [0, 0, 0];
    for (const { range, factors } of shapes) {
      const { from, to } = range;
      if (factors === undefined) {
        this.#plain.push({ from, to, values: this.#first.subarray(p, p + to - from) });
        p += to - from;
        continue;
      }
      const [lengthP, lengthQ] = [factors.rank * factors.rows, factors.rank * factors.columns];
      const one = { from, to, ...factors, p: this.#first.subarray(p, p + lengthP), q: this.#second.subarray(q, q + lengthQ) };
      draw(one.q, bucket.from + from);
      this.#factored.push(one);
      p += lengthP;
      q += lengthQ;
      largest = Math.max(largest, to - from);
    }
    this.#rest = new Float32Array(gradients.length);
    this.#product = new Float32Array(largest);
    this.#firstCall = new FirstCall(communicator.prepareAllreduce(this.#first, 'sum'), context.background);
    this.#secondCall = communicator.prepareAllreduce(this.#second, 'sum');
  }

  get sentBytes(): number {
    const { size } = this.#context.communicator;
    return (2 * (size - 1) * (this.#first.byteLength + this.#second.byteLength)) / size;
  }

  begin(): void {
    const { gradients } = this.#context;
    addInto(this.#rest, gradients);
    for (const { from, to, rows, columns, rank, p, q } of this.#factored) {
      multiply(this.#rest.subarray(from, to), false, q, false, p, [rows, rank, columns]);
    }
    for (const { from, to, values } of this.#plain) {
      values.set(this.#rest.subarray(from, to));
      this.#rest.fill(0, from, to);
    }
    this.#firstCall.begin();
  }

  wait(): Promise<void> {
    return this.#firstCall.wait();
  }

  finish(): void {
    this.#firstCall.finish();
    const { gradients, errorFeedback } = this.#context;
    for (const { from, to, rows, columns, rank, p, q } of this.#factored) {
      orthonormalize(p, rows, rank);
      const rest = this.#rest.subarray(from, to);
      multiply(rest, true, p, false, q, [columns, rank, rows]);
      const said = this.#product.subarray(0, to - from);
      multiply(p, false, q, true, said, [rows, columns, rank]);
      for (let i = 0; i < rest.length; i++) rest[i] = errorFeedback ? rest[i] - said[i] : 0;
    }
    if (this.#second.length > 0) this.#secondCall.runSync();
    for (const { from, to, rows, columns, rank, p, q } of this.#factored) {
      multiply(p, false, q, true, gradients.subarray(from, to), [rows, columns, rank]);
    }
    for (const { from, values } of this.#plain) gradients.set(values, from);
  }

  times(): BucketTimes {
    return { bucket: this.#context.bucket, ...this.#firstCall.times };
  }
}

/** The first Q: the same at all ranks, and no two columns alike. */
function draw(q: Float32Array, seed: number): void {
  const random = new Random(seed);
  for (let i = 0; i < q.length; i++) q[i] = random.normal();
}
