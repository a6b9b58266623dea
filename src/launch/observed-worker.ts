/**
 * Makes the waiting calls of a worker visible to stall reports: `send`, `recv` and an endpoint's `ready` enter the registry while they wait. The synchronous forms do not wait, so
 * they are left alone; code that polls them in a loop registers by itself.
 */

import type { Endpoint, Worker } from '../messaging/index.js';
import { ANYONE, type WaitRegistry } from './waits.js';

/** The low 31 bits of a tag: enough to recognise it in a report. */
function tagNumber(tag: Parameters<Worker['recv']>[0]): number {
  if (typeof tag === 'number') return tag % 2 ** 31;
  return typeof tag === 'bigint' ? Number(tag & 0x7fffffffn) : tag.lo & 0x7fffffff;
}

/** @param rankOf the rank behind an endpoint, or undefined */
export function observeWaits(worker: Worker, waits: WaitRegistry, rankOf: (endpoint: Endpoint) => number | undefined): Worker {
  const [sending, receiving] = [waits.site('send'), waits.site('receive')];
  const { send, recv } = worker;
  worker.send = async (endpoint, tag, ...rest) => {
    const slot = waits.enter(sending, rankOf(endpoint) ?? ANYONE, tagNumber(tag));
    try {
      return await send.call(worker, endpoint, tag, ...rest);
    } finally {
      waits.leave(slot);
    }
  };
  worker.recv = async (tag, into, options, context) => {
    const from = options?.from && rankOf(options.from);
    const slot = waits.enter(receiving, from ?? ANYONE, tagNumber(tag));
    try {
      return await recv.call(worker, tag, into, options, context);
    } finally {
      waits.leave(slot);
    }
  };
  return worker;
}

/** The same for the wait until an endpoint to a rank is connected. */
export function observeReady(endpoint: Endpoint, waits: WaitRegistry, rank: number): Endpoint {
  const connecting = waits.site('connect');
  const { ready } = endpoint;
  endpoint.ready = async (options) => {
    const slot = waits.enter(connecting, rank, 0);
    try {
      await ready.call(endpoint, options);
    } finally {
      waits.leave(slot);
    }
  };
  return endpoint;
}
