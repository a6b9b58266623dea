/**
 * Names of listeners on this host: one small file each in a directory of this user, so that a program connects by name without knowing
 * address and port. A file of a process that is gone counts as none, and
 * whoever takes a name out takes such files with it. Peers on other hosts are named with their address.
 *
 *     <tmp>/verbena-roce-<uid>/<hash of the name>      { name, pid, startTime, pidNamespace, av }
 */

import { createHash } from 'node:crypto';
import { lstatSync, mkdirSync, readdirSync, readFileSync, readlinkSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Addon } from '../../../native/addon.js';
import { VerbsError } from '../../errors.js';
import type { AddressVector } from '../../qp-state.js';

interface Entry {
  readonly name: string;
  readonly pid: number;
  readonly startTime: number;
  /** Where the pid means something: a container that shares the folder has others. */
  readonly pidNamespace: string;
  readonly av: AddressVector;
}

/** Tries to enter a name: a stale file, or a folder that goes away meanwhile, costs one each. */
const MOST_TRIES = 8;

const PID_NAMESPACE = readlinkSync('/proc/self/ns/pid');

export class Directory {
  private readonly addon: Addon;
  private readonly folder: string;

  constructor(addon: Addon, folder = join(tmpdir(), `verbena-roce-${process.getuid?.() ?? 0}`)) {
    this.addon = addon;
    this.folder = folder;
  }

  /** Enters a name. Throws VERBS_BUSY when a living process has it, VERBS_SYSTEM when the directory is not this user's. */
  add(name: string, av: AddressVector): void {
    const [startTime] = this.addon.processStat(process.pid) ?? [0];
    const entry: Entry = { name, pid: process.pid, startTime, pidNamespace: PID_NAMESPACE, av };
    for (let tries = 0; tries < MOST_TRIES; tries++) {
      try {
        this.open();
        writeFileSync(this.fileOf(name), JSON.stringify(entry), { flag: 'wx', mode: 0o600 });
        return;
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        if (code === 'ENOENT') continue; // whoever took the last name out took the folder too
        if (code !== 'EEXIST') throw error;
        if (this.find(name) !== undefined) break;
        this.remove(name);
      }
    }
    throw new VerbsError('VERBS_BUSY', `somebody listens under '${name}' already`);
  }

  /** Where a name listens, or undefined. */
  find(name: string): AddressVector | undefined {
    try {
      const entry = JSON.parse(readFileSync(this.fileOf(name), 'utf8')) as Entry;
      return entry.name === name && this.isAlive(entry) ? entry.av : undefined;
    } catch {
      return undefined;
    }
  }

  /** Takes a name out, those of processes that were killed, and the folder with the last one, so that nothing is left behind. */
  remove(name: string): void {
    rmSync(this.fileOf(name), { force: true });
    try {
      for (const file of readdirSync(this.folder)) this.removeStale(join(this.folder, file));
      rmdirSync(this.folder);
    } catch {
      // other names are in it, or it is gone
    }
  }

  private isAlive({ pid, startTime }: Entry): boolean {
    return this.addon.processStat(pid)?.[0] === startTime;
  }

  /** A file that cannot be read is being written, or is gone. */
  private removeStale(file: string): void {
    try {
      const entry = JSON.parse(readFileSync(file, 'utf8')) as Entry;
      if (entry.pidNamespace === PID_NAMESPACE && !this.isAlive(entry)) rmSync(file, { force: true });
    } catch {}
  }

  /** Makes the folder where it is missing. */
  private open(): void {
    mkdirSync(this.folder, { recursive: true, mode: 0o700 });
    const stat = lstatSync(this.folder);
    if (!stat.isDirectory() || stat.uid !== process.getuid?.()) {
      throw new VerbsError('VERBS_SYSTEM', `${this.folder} is not a directory of this user: remove it`);
    }
  }

  private fileOf(name: string): string {
    return join(this.folder, createHash('sha256').update(name).digest('hex').slice(0, 32));
  }
}
