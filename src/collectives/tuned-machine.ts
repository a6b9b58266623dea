/**
 * The constants that `verbena tune` measured on this host: a file in the user's cache folder, by host and number of ranks.
 *
 * Only ranks of one host use them: they read the same file, so they choose the same algorithms.
 */

import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { availableParallelism, homedir, hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { LOCAL_MACHINE } from './local-machine.js';
import type { Curve, Link, Machine } from './machine.js';

const VERSION = 1;

interface TunedFile {
  readonly version: number;
  /** By host, then by ranks. */
  readonly hosts: Readonly<Record<string, Readonly<Record<string, Machine>>>>;
}

/** Where the file is: VERBENA_COLLECTIVES_TUNE_FILE, or the user's cache folder. */
export function tunedMachinePath(env: NodeJS.ProcessEnv = process.env): string {
  const folder = join(env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'verbena');
  return env['VERBENA_COLLECTIVES_TUNE_FILE'] ?? join(folder, 'collectives.json');
}

function readFile(path: string): TunedFile {
  try {
    const file = JSON.parse(readFileSync(path, 'utf8')) as TunedFile;
    if (file.version === VERSION && typeof file.hosts === 'object') return file;
  } catch {
    // none yet, or from another version
  }
  return { version: VERSION, hosts: {} };
}

/** Keeps what was measured with so many ranks. */
export function writeTunedMachine(ranks: number, machine: Machine, path = tunedMachinePath()): void {
  const file = readFile(path);
  const hosts = { ...file.hosts, [hostname()]: { ...file.hosts[hostname()], [ranks]: machine } };
  mkdirSync(dirname(path), { recursive: true });
  const made = `${path}.${process.pid}`;
  writeFileSync(made, `${JSON.stringify({ version: VERSION, hosts }, undefined, 2)}\n`);
  renameSync(made, path); // whoever reads it meanwhile sees the old one or the new one
}

/**
 * The constants for so many ranks of this host: as measured, or those of the nearest number that was measured, slowed down by as much as the
 * processors are shared among more ranks; LOCAL_MACHINE when nothing was measured.
 */
export function tunedMachine(ranks: number, path = tunedMachinePath()): Machine {
  const known = readFile(path).hosts[hostname()];
  if (known === undefined) return LOCAL_MACHINE;
  if (known[ranks] !== undefined) return known[ranks];
  const measured = Object.keys(known).map(Number);
  if (measured.length === 0) return LOCAL_MACHINE;
  const nearest = measured.reduce((a, b) => (Math.abs(Math.log(b / ranks)) < Math.abs(Math.log(a / ranks)) ? b : a));
  const sharing = (n: number) => Math.max(1, n / availableParallelism());
  return slower(known[nearest], sharing(ranks) / sharing(nearest));
}

function slower(machine: Machine, factor: number): Machine {
  const curve = (points: Curve | undefined) =>
    points?.map(({ bytes, secondsPerByte }) => ({ bytes, secondsPerByte: secondsPerByte * factor }));
  const link = (one: Link): Link => ({
    alphaSeconds: one.alphaSeconds * factor,
    betaSecondsPerByte: one.betaSecondsPerByte * factor,
    curve: curve(one.curve),
  });
  const { copy } = machine;
  return {
    ...machine,
    host: link(machine.host),
    memory: link(machine.memory),
    memoryWrite: machine.memoryWrite && link(machine.memoryWrite),
    memoryUpdate: machine.memoryUpdate && link(machine.memoryUpdate),
    callSeconds: machine.callSeconds && machine.callSeconds * factor,
    sharing: (machine.sharing ?? 1) * factor,
    gammaSecondsPerByte: machine.gammaSecondsPerByte * factor,
    gammaCurve: curve(machine.gammaCurve),
    copy: copy && { secondsPerByte: copy.secondsPerByte * factor, curve: curve(copy.curve) },
    slots: machine.slots && link(machine.slots),
  };
}
