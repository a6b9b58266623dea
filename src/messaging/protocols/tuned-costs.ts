/** What `verbena tune` measured on this machine: a file in the user's cache folder, by host and provider. */

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { homedir, hostname } from 'node:os';
import { dirname, join } from 'node:path';
import type { Costs } from './protocol.js';

const VERSION = 1;

interface TunedFile {
  readonly version: number;
  /** By host, then by provider. */
  readonly hosts: Record<string, Record<string, Partial<Costs>>>;
}

/** Where the file is: VERBENA_TUNE_FILE, or the user's cache folder. */
export function tunedPath(env: NodeJS.ProcessEnv = process.env): string {
  return env['VERBENA_TUNE_FILE'] ?? join(env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'verbena', 'tune.json');
}

function readFile(path: string): TunedFile {
  try {
    const file = JSON.parse(readFileSync(path, 'utf8')) as TunedFile;
    if (file.version === VERSION && typeof file.hosts === 'object') return file;
  } catch {
    // none yet, or from another version: measured anew when asked for
  }
  return { version: VERSION, hosts: {} };
}

/** The measured constants of a provider on this host; empty when nothing was measured. */
export function readTuned(provider: string, path = tunedPath()): Partial<Costs> {
  return readFile(path).hosts[hostname()]?.[provider] ?? {};
}

/** Keeps measured constants. */
export function writeTuned(provider: string, costs: Partial<Costs>, path = tunedPath()): void {
  const file = readFile(path);
  const hosts = { ...file.hosts, [hostname()]: { ...file.hosts[hostname()], [provider]: costs } };
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, `${JSON.stringify({ version: VERSION, hosts }, undefined, 2)}\n`);
}
