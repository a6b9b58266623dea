/**
 * What a connection is asked for: a service at an end. A number is a port of librdmacm's TCP port space, which programs of others use; any
 * other name is a service of this library, its id made from the name.
 *
 *     '7471'                        port 7471 at whoever listens on this host      'greeter'       the same by name
 *     '10.0.0.2/7471'               port 7471 at 10.0.0.2, UDP port 4791
 *     '10.0.0.2:5000/greeter'       a name at another UDP port                     '[fd00::2]:5000/greeter'
 */

import { createHash } from 'node:crypto';
import { MAX_PRIVATE_DATA } from '../../connection.js';
import { VerbsError } from '../../errors.js';
import { ipText, parseIp } from '../../ip-address.js';
import { decodeIpHeader, encodeIpHeader, portOf, serviceIdOf } from '../../transport/cm-ip.js';
import { ROCE_PORT } from './address.js';
import type { End } from './messages.js';

const MAX_NAME = 255;
/** The upper byte of the ids that are made from names. */
const NAMED = 0x56n << 56n;
/** A connect request of librdmacm has this much room for the user. */
const PORT_PRIVATE_BYTES = 56;

const NOTHING = new Uint8Array(0);

/** Throws VERBS_INVALID for what is no name. */
export function checkName(name: string): void {
  if (typeof name !== 'string' || name.length === 0 || name.length > MAX_NAME || name.includes('\0')) {
    throw new VerbsError('VERBS_INVALID', `a name has 1 to ${MAX_NAME} characters and no NUL`);
  }
}

/** The id of a service by its name or port. */
export function serviceOf(name: string): bigint {
  if (/^\d{1,5}$/.test(name) && Number(name) < 65536) return serviceIdOf(Number(name));
  return NAMED | (createHash('sha256').update(name).digest().readBigUInt64BE() >> 8n);
}

/** 'host:port/service', for `parseTarget` on any host. */
export function targetOf({ address, port }: End, service: string): string {
  const host = ipText(address);
  return `${host.includes(':') ? `[${host}]` : host}:${port}/${service}`;
}

/** Splits 'host:port/service'; without a host, `end` is undefined. */
export function parseTarget(text: string): { end: End | undefined; service: string } {
  const slash = text.indexOf('/');
  const match = slash < 0 ? null : /^\[?([^\]]+?)\]?(?::(\d+))?$/.exec(text.slice(0, slash));
  const address = match ? parseIp(match[1]) : undefined;
  if (!match || address === undefined) return { end: undefined, service: text };
  return { end: { address, port: Number(match[2] ?? ROCE_PORT) }, service: text.slice(slash + 1) };
}

/** Private data of a connect request on the wire. */
export function requestData(serviceId: bigint, data: Uint8Array, source: End, destination: End): Uint8Array {
  if (portOf(serviceId) < 0) return framed(data);
  if (data.length > PORT_PRIVATE_BYTES) {
    throw new VerbsError('VERBS_INVALID', `${data.length} bytes of private data: a port takes at most ${PORT_PRIVATE_BYTES}`);
  }
  return encodeIpHeader({ sourcePort: 0, source: source.address, destination: destination.address, privateData: data });
}

/** The user's part of it. A port's has always its full length, because the wire does not tell how much was meant. */
export function requestDataOf(serviceId: bigint, data: Uint8Array): Uint8Array {
  if (portOf(serviceId) < 0) return unframed(data);
  return decodeIpHeader(data)?.privateData ?? NOTHING;
}

/** Private data of an answer on the wire. */
export function answerData(serviceId: bigint, data: Uint8Array = NOTHING): Uint8Array {
  return portOf(serviceId) < 0 ? framed(data) : checked(data);
}

export function answerDataOf(serviceId: bigint, data: Uint8Array): Uint8Array {
  return portOf(serviceId) < 0 ? unframed(data) : data;
}

function checked(data: Uint8Array): Uint8Array {
  if (data.length > MAX_PRIVATE_DATA) {
    throw new VerbsError('VERBS_INVALID', `${data.length} bytes of private data: at most ${MAX_PRIVATE_DATA} fit`);
  }
  return data;
}

/** Preceded by its length. */
function framed(data: Uint8Array): Uint8Array {
  return Uint8Array.of(checked(data).length, ...data);
}

function unframed(data: Uint8Array): Uint8Array {
  return Uint8Array.from(data.subarray(1, 1 + (data[0] ?? 0)));
}
