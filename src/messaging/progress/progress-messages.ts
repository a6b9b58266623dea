/**
 * What the main thread and its progress thread say to each other. Memory travels as numbers (address of the buffer, its size, offset, length), requests and
 * endpoints as numbers too: the thread sees the same address space, so nothing is copied.
 */

import type { ContextOptions, WorkerOptions } from '../options.js';

/** A run of memory of this process. */
export interface MemoryWords {
  /** Address and bytes of the whole buffer. */
  readonly base: number;
  readonly size: number;
  readonly offset: number;
  readonly length: number;
}

export interface ProgressOpen {
  readonly context: ContextOptions;
  readonly worker: WorkerOptions;
}

/** A call of the main thread. `id` names its answer. */
export type ProgressCall = { readonly id: number } & (
  | { readonly op: 'connect'; readonly to: string | Uint8Array; readonly timeoutMs: number | undefined }
  | { readonly op: 'listen'; readonly name: string }
  | {
      readonly op: 'send';
      readonly endpoint: number;
      readonly lo: number;
      readonly hi: number;
      readonly memory: MemoryWords;
      readonly timeoutMs: number | undefined;
    }
  | {
      readonly op: 'recv';
      readonly lo: number;
      readonly hi: number;
      readonly maskLo: number;
      readonly maskHi: number;
      /** Endpoint, or -1 for anyone. */
      readonly from: number;
      readonly memory: MemoryWords;
      readonly timeoutMs: number | undefined;
    }
  | {
      readonly op: 'am';
      readonly endpoint: number;
      readonly handler: number;
      readonly header: Uint8Array;
      readonly memory: MemoryWords;
      readonly timeoutMs: number | undefined;
    }
  | { readonly op: 'handle'; readonly handler: number; readonly isOn: boolean }
  | { readonly op: 'alloc'; readonly bytes: number }
  | { readonly op: 'cancel'; readonly request: number }
  | { readonly op: 'closeEndpoint'; readonly endpoint: number; readonly isForced: boolean }
  | { readonly op: 'close'; readonly isForced: boolean }
);

/** An error as plain values. */
export interface ProgressFailure {
  readonly code: string;
  readonly message: string;
  readonly peer: string | undefined;
  readonly operation: string | undefined;
}

/** What the thread says. */
export type ProgressNews =
  | { readonly kind: 'open'; readonly address: Uint8Array }
  | { readonly kind: 'done'; readonly id: number; readonly values: readonly number[]; readonly words: string }
  | { readonly kind: 'failed'; readonly id: number; readonly failure: ProgressFailure }
  | { readonly kind: 'arrived'; readonly listener: string | undefined; readonly endpoint: number; readonly peer: string }
  | {
      readonly kind: 'am';
      readonly handler: number;
      readonly endpoint: number;
      readonly header: Uint8Array;
      readonly data: Uint8Array;
    }
  | { readonly kind: 'error'; readonly failure: ProgressFailure };
