/** Which machine this is, as far as shared memory can tell: processes of one user in one process namespace since one boot. */

import { createHash } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

const HOST_BYTES = 8;

function found(read: () => string): string | undefined {
  try {
    return read();
  } catch {
    return undefined; // no such file here: the other words must do
  }
}

/** Eight bytes that are equal where shared memory joins two processes. @param name words that stand for the machine instead. */
export function hostIdentity(name?: string): Uint8Array {
  const boot = found(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()) ?? hostname();
  const namespace = found(() => readlinkSync('/proc/self/ns/pid')) ?? '';
  const words = name ?? `${boot} ${namespace} uid:${process.getuid?.() ?? 0}`;
  return new Uint8Array(createHash('sha256').update(words).digest().subarray(0, HOST_BYTES));
}
