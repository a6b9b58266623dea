/**
 * Names of UCX listeners on this host: one small file each in a directory of this user, with the worker's address. A file of a process that is gone counts
 * as none. Listeners on other hosts are named with address and port.
 */

import { createHash } from 'node:crypto';
import { lstatSync, mkdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MessagingError } from '../../errors.js';
import { isSameProcess, type ProcessIdentity, processIdentity } from './process-identity.js';

interface Entry extends ProcessIdentity {
  readonly name: string;
  readonly address: string;
}

const folder = () => join(tmpdir(), `verbena-ucx-${process.getuid?.() ?? 0}`);
const fileOf = (name: string) => join(folder(), createHash('sha256').update(name).digest('hex').slice(0, 32));

/** Enters a name. Throws MSG_REFUSED when a living process has it. */
export function addName(name: string, address: Uint8Array): void {
  mkdirSync(folder(), { recursive: true, mode: 0o700 });
  if (lstatSync(folder()).uid !== process.getuid?.()) {
    throw new MessagingError('MSG_REFUSED', `${folder()} is not a directory of this user: remove it`);
  }
  if (findName(name) !== undefined) throw new MessagingError('MSG_REFUSED', `somebody listens under '${name}' already`);
  const entry: Entry = { name, ...processIdentity(), address: Buffer.from(address).toString('base64') };
  writeFileSync(fileOf(name), JSON.stringify(entry), { mode: 0o600 });
}

/** The worker's address that a name stands for, or undefined. */
export function findName(name: string): Uint8Array | undefined {
  try {
    const entry = JSON.parse(readFileSync(fileOf(name), 'utf8')) as Entry;
    return entry.name === name && isSameProcess(entry) ? new Uint8Array(Buffer.from(entry.address, 'base64')) : undefined;
  } catch {
    return undefined;
  }
}

/** Takes a name out, and the folder with the last one. */
export function removeName(name: string): void {
  rmSync(fileOf(name), { force: true });
  try {
    rmdirSync(folder());
  } catch {
    // other names are in it, or it is gone
  }
}
