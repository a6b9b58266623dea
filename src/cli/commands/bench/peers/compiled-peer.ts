/** Peers that are small C programs of ours (bench/peers): compiled on first use, once per version of their source. */

import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, isAbsolute, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Where the source of a peer is in a clone; a package has none. */
export function peerSource(file: string): string {
  return fileURLToPath(new URL(`../../../../../../bench/peers/${file}`, import.meta.url));
}

/** Compiles a source and returns the program's path. Throws with the compiler's words. */
export function compilePeer(source: string, compiler: string): string {
  const hash = createHash('sha256').update(readFileSync(source)).digest('hex').slice(0, 16);
  const xdg = process.env['XDG_CACHE_HOME'];
  const folder = join(xdg && isAbsolute(xdg) ? xdg : join(homedir(), '.cache'), 'verbena');
  const program = join(folder, `${basename(source, '.c')}-${hash}`);
  if (existsSync(program)) return program;
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const unfinished = `${program}.${process.pid}`;
  const result = spawnSync(compiler, ['-O2', '-o', unfinished, source], { encoding: 'utf8' });
  if (result.status !== 0) {
    rmSync(unfinished, { force: true });
    throw new Error(`${compiler} failed: ${(result.stderr ?? result.error?.message ?? '').trim().slice(-300)}`);
  }
  renameSync(unfinished, program);
  return program;
}
