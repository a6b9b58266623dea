/** What the addon for libibverbs exports, typed; native/ibverbs/addon.c is the other side. Negative numbers are -errno, objects are positive numbers. */

import type { OptionalAddon } from '../../../native/build.js';
import { loadOptionalAddon } from '../../../native/load.js';

/** A pointer of C that stands for an open port. */
export type Handle = number;

/** Kinds of `callback`'s first argument. */
export const HAPPENED_COMPLETION = 0;
export const HAPPENED_ASYNC = 1;

export type Happened = (
  kind: number,
  object: number,
  type: number,
  status: number,
  privateData: Uint8Array,
  listener: number,
) => void;

export interface IbverbsAddon {
  /** JSON of every device: see discovery.ts. */
  devices(): string | number;
  open(device: string, port: number, block: ArrayBuffer, callback: Happened): { handle: Handle; run: () => void } | number;
  /** JSON of the open port as it is now: PortInfo of discovery.ts. */
  portNow(handle: Handle): string | number;
  close(handle: Handle): void;
  hold(handle: Handle, on: number): void;
  /** Calls `callback` for everything that has happened. */
  progress(handle: Handle): void;
  allocPd(handle: Handle): number;
  register(
    handle: Handle,
    pd: number,
    address: number,
    length: number,
    access: number,
  ): [object: number, lkey: number, rkey: number] | number;
  createCq(handle: Handle, depth: number, records: number): [object: number, records: ArrayBuffer] | number;
  armCq(handle: Handle, cq: number, solicitedOnly: number): number;
  createSrq(handle: Handle, pd: number, depth: number, sges: number): number;
  limitSrq(handle: Handle, srq: number, limit: number): number;
  countSrq(handle: Handle, srq: number): number;
  /** The arguments are in the block: native/ibverbs/port.h lists them. */
  createQp(handle: Handle): [object: number, number: number] | number;
  modify(handle: Handle, qp: number): number;
  /** The number of a queue pair: a DCT has none before RTR. */
  numberOf(handle: Handle, qp: number): number;
  query(handle: Handle, qp: number): number;
  createAh(handle: Handle, pd: number): number;
  multicast(handle: Handle, qp: number, gid: Uint8Array, lid: number, join: number): number;
  destroy(handle: Handle, object: number): number;

  cmListen(handle: Handle, ip: string, port: number): [listener: number, port: number] | number;
  cmResolve(handle: Handle, source: string, ip: string, port: number, timeoutMs: number): number;
  cmRoute(handle: Handle, id: number, timeoutMs: number): number;
  cmConnect(handle: Handle, id: number, data: Uint8Array): number;
  cmAccept(handle: Handle, id: number, data: Uint8Array): number;
  cmReject(handle: Handle, id: number, data: Uint8Array): number;
  cmEstablish(handle: Handle, id: number): number;
  cmDisconnect(handle: Handle, id: number): number;
  cmModify(handle: Handle, id: number, qp: number, state: number): number;
}

/** What is built where libibverbs and librdmacm are. */
export const IBVERBS: OptionalAddon = {
  name: 'ibverbs',
  libraries: ['-libverbs', '-lrdmacm', '-ldl'],
  packages: 'libibverbs-dev librdmacm-dev ibverbs-providers',
};

/** Opens the addon; the first call on a machine compiles it. Throws AddonError: VERBENA_NO_LIBRARY names the packages to install. */
export function loadIbverbs(): IbverbsAddon {
  return loadOptionalAddon<IbverbsAddon>(IBVERBS);
}
