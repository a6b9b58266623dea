/** ZeroMQ as a parameter server: a small C program of ours (bench/peers/ps-zeromq.c), compiled on first use, in the better of its two ways. */

import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findProgram } from '../bench/child-program.js';

const SOURCE = fileURLToPath(new URL('../../../../../bench/peers/ps-zeromq.c', import.meta.url));
const FOLDERS = ['/usr/lib/x86_64-linux-gnu', '/usr/lib/aarch64-linux-gnu', '/usr/lib64', '/usr/lib', '/usr/local/lib'];
const LIBRARY = 'libzmq.so.5';
const INSTALL = 'apt-get install libzmq5 gcc';

/** How the program uses ZeroMQ; see its source. */
export type ZeroMqWay = 'plain' | 'messages';

/** What is missing, with the command that installs it; undefined when all is here. */
export function missingZeroMq(): string | undefined {
  if (!existsSync(SOURCE)) return 'the benchmark sources are not here: run it from a clone';
  if (findProgram('cc') === undefined) return INSTALL;
  return libraryFolder() === undefined ? INSTALL : undefined;
}

function libraryFolder(): string | undefined {
  return FOLDERS.find((folder) => existsSync(folder) && readdirSync(folder).includes(LIBRARY));
}

function compiled(): string {
  const hash = createHash('sha256').update(readFileSync(SOURCE)).digest('hex').slice(0, 16);
  const xdg = process.env['XDG_CACHE_HOME'];
  const folder = join(xdg && isAbsolute(xdg) ? xdg : join(homedir(), '.cache'), 'verbena');
  const program = join(folder, `ps-zeromq-${hash}`);
  if (existsSync(program)) return program;
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const unfinished = `${program}.${process.pid}`;
  const words = ['-O3', '-o', unfinished, SOURCE, `-L${libraryFolder()}`, `-l:${LIBRARY}`];
  const result = spawnSync('cc', words, { encoding: 'utf8' });
  if (result.status !== 0) {
    rmSync(unfinished, { force: true });
    throw new Error(`cc failed: ${(result.stderr ?? result.error?.message ?? '').trim().slice(-300)}`);
  }
  renameSync(unfinished, program);
  return program;
}

/** Times of push and pull, us; of several workers one, the time over the round trips of all. Throws when the program fails or the parameters came out wrong. */
export async function runZeroMq(
  bytes: number,
  milliseconds: number,
  way: ZeroMqWay,
  workers: number,
  signal: AbortSignal,
): Promise<number[]> {
  const path = join(tmpdir(), `verbena-zeromq-${process.pid}-${process.hrtime.bigint()}`);
  const words = [`ipc://${path}`, String(bytes), String(milliseconds), way, String(workers)];
  const child = spawn(compiled(), words, { stdio: ['ignore', 'pipe', 'pipe'], signal });
  let [output, errors] = ['', ''];
  child.stdout.on('data', (chunk) => {
    output += chunk;
  });
  child.stderr.on('data', (chunk) => {
    errors += chunk;
  });
  const code = await new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  rmSync(path, { force: true });
  const times = output.trim().split('\n').map(Number);
  if (code !== 0 || times.some((us) => !(us > 0))) {
    throw new Error(`the ZeroMQ program ended with ${code}: ${errors.trim().slice(-300)}`);
  }
  return times;
}
