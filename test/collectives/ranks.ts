/** Starts the ranks of a test as processes: each runs the same scenario, finds the others through files, and says what it saw in JSON lines. */

import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** What a rank gets as its argument. */
export interface RankInput {
  readonly rank: number;
  readonly size: number;
  readonly directory: string;
}

export interface RankResult {
  readonly rank: number;
  /** Exit code, or the signal. */
  readonly end: number | string;
  /** Lines it printed, parsed. */
  readonly said: readonly Record<string, unknown>[];
  readonly stderr: string;
}

export interface RanksOptions {
  /** All are killed after this time. Default 60,000 ms. */
  readonly watchdogMs?: number;
  /** Environment of one rank beside this process's. */
  readonly env?: (rank: number) => Record<string, string | undefined>;
  /** Words before the command of a rank, such as those that run it on another host. Default: none. */
  readonly inside?: (rank: number) => readonly string[];
  /** Called for each line of each rank. */
  readonly heard?: (rank: number, line: Record<string, unknown>, ranks: readonly ChildProcess[]) => void;
}

/** Runs `scenarios/<name>.js`, or the program of a URL, as `size` processes and waits for all. */
export async function runRanks(name: string | URL, size: number, options: RanksOptions = {}): Promise<RankResult[]> {
  const directory = mkdtempSync(join(tmpdir(), 'verbena-ranks-'));
  const file = fileURLToPath(typeof name === 'string' ? new URL(`./scenarios/${name}.js`, import.meta.url) : name);
  const { NODE_TEST_CONTEXT: _, ...inherited } = process.env;
  const ranks = Array.from({ length: size }, (_, rank) => {
    const input: RankInput = { rank, size, directory };
    const env = { ...inherited, ...options.env?.(rank) };
    const [command, ...words] = [...(options.inside?.(rank) ?? []), process.execPath, file, JSON.stringify(input)];
    return spawn(command, words, { stdio: ['ignore', 'pipe', 'pipe'], env });
  });
  const watchdog = setTimeout(() => {
    for (const rank of ranks) rank.kill('SIGKILL');
  }, options.watchdogMs ?? 60_000);
  try {
    return await Promise.all(ranks.map((child, rank) => listen(child, rank, ranks, options)));
  } finally {
    clearTimeout(watchdog);
    rmSync(directory, { recursive: true, force: true });
  }
}

function listen(child: ChildProcess, rank: number, ranks: readonly ChildProcess[], options: RanksOptions): Promise<RankResult> {
  const said: Record<string, unknown>[] = [];
  let stderr = '';
  child.stderr?.on('data', (text: Buffer) => {
    stderr = (stderr + text).slice(-4000);
  });
  if (child.stdout) {
    createInterface({ input: child.stdout }).on('line', (line) => {
      const parsed = JSON.parse(line) as Record<string, unknown>;
      said.push(parsed);
      options.heard?.(rank, parsed, ranks);
    });
  }
  return new Promise((resolve) => {
    child.on('close', (code, signal) => resolve({ rank, end: code ?? signal ?? 'unknown', said, stderr }));
  });
}
