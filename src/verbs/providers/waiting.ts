/**
 * Waiting with a time limit and a signal, as every promise of a device does it: the process stays alive meanwhile, and whatever ends the wait first
 * takes back the rest.
 */

import type { AcceptOptions } from '../connection.js';
import { VerbsError } from '../errors.js';

/** A wait in progress. */
export interface Waiter<T> {
  resolve(value: T): void;
  reject(error: unknown): void;
}

/** What is waited on. */
export interface WaitHost {
  readonly isClosed: boolean;
  /** Keeps the process alive while somebody waits; calls pair up. */
  hold(on: boolean): void;
  /** Calls `act` later on the host's clock; what it returns calls that off. */
  after?(ms: number, act: () => void): () => void;
}

type Options = { [K in keyof AcceptOptions]?: AcceptOptions[K] | undefined };

/** Registers a waiter with `start`, which returns what takes it back. Throws VERBS_TIMEOUT (`what` did not happen), VERBS_CLOSED, the signal's reason. */
export function waitOn<T>(host: WaitHost, options: Options, what: string, start: (waiter: Waiter<T>) => () => void): Promise<T> {
  const { timeoutMs, signal, keepAlive = true } = options;
  return new Promise<T>((resolve, reject) => {
    if (signal?.aborted || host.isClosed) {
      reject(signal?.aborted ? signal.reason : new VerbsError('VERBS_CLOSED', 'the device is closed'));
      return;
    }
    let isOver = false;
    let takeBack = (): void => {};
    const end = (act: () => void): void => {
      if (isOver) return;
      isOver = true;
      cancelTimer();
      signal?.removeEventListener('abort', abort);
      takeBack();
      if (keepAlive) host.hold(false);
      act();
    };
    const abort = (): void => end(() => reject(signal?.reason));
    const late = (): void => end(() => reject(new VerbsError('VERBS_TIMEOUT', `${what} within ${timeoutMs} ms`)));
    const after = host.after?.bind(host) ?? realTimer;
    const cancelTimer = timeoutMs === undefined ? (): void => {} : after(timeoutMs, late);
    if (keepAlive) host.hold(true);
    signal?.addEventListener('abort', abort, { once: true });
    try {
      takeBack = start({
        resolve: (value) => end(() => resolve(value)),
        reject: (error) => end(() => reject(error)),
      });
    } catch (error) {
      end(() => reject(error));
    }
  });
}

function realTimer(ms: number, act: () => void): () => void {
  const timer = setTimeout(act, ms);
  return () => clearTimeout(timer);
}
