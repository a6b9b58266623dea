/**
 * What a rank did when: spans on two tracks, kept as numbers while training runs and written as a Chrome trace afterwards (trace.ts).
 *
 *   computing   | forward (read) | backward          | wait | transfer | optimizer |
 *   exchange            [ bucket 0: wait, transfer ]   [ bucket 1 ]
 *
 * A ring of fixed size: a long run keeps its last spans, and recording allocates nothing.
 */

/** What a span is. The order is the number under which it is kept. */
export const SPAN_KINDS = [
  'read',
  'forward',
  'backward',
  'wait',
  'transfer',
  'optimizer',
  'evaluate',
  'checkpoint',
  'recover',
  'bucket-wait',
  'bucket-transfer',
] as const;
/** What a rank did in a span. */
export type SpanKind = (typeof SPAN_KINDS)[number];

const FIELDS = 5;

/** A stretch of time of one step. */
export interface Span {
  readonly kind: SpanKind;
  /** ms of the monotonic clock. */
  readonly beginMs: number;
  readonly endMs: number;
  readonly step: number;
  /** Number of the bucket, where it is one. */
  readonly bucket: number;
}

export class Timeline {
  readonly #numbers: Float64Array;
  readonly #capacity: number;
  #count = 0;

  /** `capacity`: spans that are kept, at least 1. Default 200,000 (8 MB). */
  constructor(capacity = 200_000) {
    if (!Number.isSafeInteger(capacity) || capacity < 1) throw new RangeError(`capacity must be at least 1, not ${capacity}`);
    this.#capacity = capacity;
    this.#numbers = new Float64Array(capacity * FIELDS);
  }

  add(kind: SpanKind, beginMs: number, endMs: number, step: number, bucket = -1): void {
    const at = (this.#count++ % this.#capacity) * FIELDS;
    this.#numbers[at] = SPAN_KINDS.indexOf(kind);
    this.#numbers[at + 1] = beginMs;
    this.#numbers[at + 2] = endMs;
    this.#numbers[at + 3] = step;
    this.#numbers[at + 4] = bucket;
  }

  /** What is kept, oldest first. */
  spans(): Span[] {
    const kept = Math.min(this.#count, this.#capacity);
    return Array.from({ length: kept }, (_, i) => {
      const at = ((this.#count - kept + i) % this.#capacity) * FIELDS;
      const [kind, beginMs, endMs, step, bucket] = this.#numbers.subarray(at, at + FIELDS);
      return { kind: SPAN_KINDS[kind], beginMs, endMs, step, bucket };
    });
  }
}
