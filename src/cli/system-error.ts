/** Errors in words for people: what the operating system means, and what a process of a command has to say when it fails. */

import { writeSync } from 'node:fs';

const MEANINGS: Readonly<Record<string, string>> = {
  EACCES: 'permission is missing',
  EADDRINUSE: 'another process listens there',
  EADDRNOTAVAIL: 'this machine does not have that address',
  EDQUOT: "the user's quota of the disk is used up",
  EEXIST: 'there is something of that name already',
  EISDIR: 'that is a folder: name a file',
  EMFILE: 'this process may not open more files (ulimit -n)',
  ENOENT: 'there is no such file or folder',
  ENOSPC: 'the disk is full',
  ENOTDIR: 'a part of that path is no folder',
  EPERM: 'that is not permitted',
  EROFS: 'that disk can only be read',
};

/** The sentence for a failed system call: "cannot open out/x.svg: there is no such file or folder". Undefined for any other error. */
export function systemErrorWords(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code, syscall, path, address, port } = error as NodeJS.ErrnoException & { address?: string; port?: number };
  const meaning = code === undefined ? undefined : MEANINGS[code];
  if (meaning === undefined || syscall === undefined) return undefined;
  const place = path ?? (port === undefined ? address : `${address ?? ''}:${port}`);
  return `cannot ${syscall}${place === undefined ? '' : ` ${place}`}: ${meaning} (${code})`;
}

/** What a failed process says: one sentence where the cause is known, the stack where it is not. */
export function failureWords(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code } = error as NodeJS.ErrnoException;
  const isKnown = typeof code === 'string' && !code.startsWith('ERR_');
  return systemErrorWords(error) ?? (isKnown ? error.message : String(error.stack));
}

/** For processes of a command: an error that nobody catches is told by `failureWords`, and ends the process with 1. */
export function tellFailures(): void {
  process.on('uncaughtException', (error) => {
    writeSync(2, `${failureWords(error)}\n`);
    process.exit(1);
  });
}
