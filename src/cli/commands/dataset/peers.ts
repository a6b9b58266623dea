/** Other systems that do the same work, round by round: Spark, GNU sort, DuckDB. */

import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { findProgram } from '../bench/child-program.js';
import { keySql } from './bench-data.js';
import { watchPeak } from './peak.js';

const ROOT = fileURLToPath(new URL('../../../../../', import.meta.url));
const SPARK_PYTHON = join(ROOT, 'build', 'spark', 'bin', 'python');
const SPARK_PROGRAM = join(ROOT, 'bench', 'peers', 'spark-datasets.py');
const SPARK_INSTALL = 'python3 -m venv build/spark && build/spark/bin/pip install pyspark==3.5.1 (needs Java 17)';

/** A job that is measured. */
export interface Work {
  readonly name: string;
  /** What tells it from other jobs of the same bench; empty for the first where one is plain. */
  readonly words: string;
  /** How many rows must come of it. Default: not known before. */
  readonly answer?: number;
}

/** Somebody who takes part: one round at a time, so that all take turns. */
export interface Contestant {
  readonly who: string;
  readonly command?: string;
  /** Does the work once and says how long it took, and how much memory was held so far. */
  round(work: Work): Promise<{ ms: number; peakBytes: number; stagesMs?: readonly number[] }>;
  close(): Promise<void>;
}

export interface PeerInput {
  readonly works: readonly Work[];
  /** Folders by name, in the form that the peer reads. */
  readonly input: Readonly<Record<string, string>>;
  /** A small part of it, for warming up. */
  readonly warm: Readonly<Record<string, string>>;
  readonly scratch: string;
  readonly threads: number;
  readonly signal: AbortSignal;
}

/** How to get it, or undefined when it is there. */
export function missingSpark(): string | undefined {
  return existsSync(SPARK_PYTHON) && findProgram('java') ? undefined : SPARK_INSTALL;
}

export async function openSpark({ works, input, warm, scratch, threads, signal }: PeerInput): Promise<Contestant> {
  const output = join(scratch, 'spark-out');
  const job = {
    works: works.map(({ name }) => name),
    input,
    warm,
    output,
    scratch,
    threads,
    partitions: 2 * threads,
    memory: '6g',
  };
  const child = spawn(SPARK_PYTHON, [SPARK_PROGRAM, JSON.stringify(job)], {
    signal,
    killSignal: 'SIGKILL',
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  child.on('error', () => {}); // it is told by its end
  child.stdin.on('error', () => {});
  let complaints = '';
  child.stderr.on('data', (chunk) => {
    complaints = `${complaints}${chunk}`.slice(-500);
  });
  const ended = new Promise<void>((resolve) => child.on('close', () => resolve()));
  const peak = watchPeak(child.pid);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const answer = async (): Promise<{ ms: number }> => {
    for (;;) {
      const { done, value } = await lines.next();
      if (done) throw new Error(`Spark: ${complaints}`);
      if (value.startsWith('{')) return JSON.parse(value) as { ms: number };
    }
  };
  await answer(); // it has warmed up
  return {
    who: 'spark',
    command: `pyspark 3.5, local[${threads}], DataFrames`,
    async round({ name }) {
      child.stdin.write(`${name}\n`);
      const { ms } = await answer();
      return { ms, peakBytes: peak() };
    },
    async close() {
      child.stdin.end();
      await ended;
    },
  };
}

export async function openGnuSort({ input, scratch, threads, signal }: PeerInput): Promise<Contestant> {
  const folder = input['records'];
  const files = readdirSync(folder).map((name) => join(folder, name));
  const output = join(scratch, 'gnu-sorted');
  const args = [`--parallel=${threads}`, '-S', '2G', '-T', scratch, '-o', output, ...files];
  return {
    who: 'gnu-sort',
    command: `LC_ALL=C sort --parallel=${threads} -S 2G`,
    async round() {
      const started = performance.now();
      const child = spawn('sort', args, { env: { ...process.env, LC_ALL: 'C' }, signal, killSignal: 'SIGKILL', stdio: 'ignore' });
      const peak = watchPeak(child.pid);
      const code = await new Promise<number | null>((resolve, reject) => child.on('error', reject).on('close', resolve));
      const ms = performance.now() - started;
      rmSync(output, { force: true });
      if (code !== 0) throw new Error(`sort ended with ${code}`);
      return { ms, peakBytes: peak() };
    },
    close: async () => {},
  };
}

/** DuckDB, or how to get it. */
export async function findDuckDb(): Promise<typeof import('@duckdb/node-api') | undefined> {
  try {
    return await import('@duckdb/node-api');
  } catch {
    return undefined;
  }
}

/** Writes the rows of the benches as Parquet, for Spark and DuckDB. */
export async function writeParquet(folder: string, rows: number, keys: number, kind: 'rows' | 'small'): Promise<void> {
  const duckdb = await findDuckDb();
  if (!duckdb) throw new Error('Parquet input needs DuckDB: npm install @duckdb/node-api');
  mkdirSync(folder, { recursive: true });
  const instance = await duckdb.DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  const columns =
    kind === 'rows'
      ? `${keySql('i', keys)} AS key, CAST(i % 1000 AS DOUBLE) AS value`
      : 'CAST(i AS INTEGER) AS key, i / 2.0 AS weight';
  for (let file = 0; file < 2; file++) {
    const [from, to] = [Math.floor((file * rows) / 2), Math.floor(((file + 1) * rows) / 2)];
    await connection.run(
      `COPY (SELECT ${columns} FROM range(${from}, ${to}) t(i)) TO '${join(folder, `${kind}-${file}.parquet`)}' (FORMAT parquet)`,
    );
  }
  connection.closeSync();
  instance.closeSync();
}

export async function openDuckDb({ works, input, threads }: PeerInput): Promise<Contestant> {
  const duckdb = await findDuckDb();
  if (!duckdb) throw new Error('not installed');
  const instance = await duckdb.DuckDBInstance.create(':memory:', { threads: String(threads) });
  const connection = await instance.connect();
  const rows = `read_parquet('${join(input['rows'], '*.parquet')}')`;
  const query =
    works[0].name === 'groupby'
      ? `SELECT key, sum(value) AS total FROM ${rows} GROUP BY key`
      : `SELECT * FROM ${rows} AS l JOIN read_parquet('${join(input['small'] ?? '', '*.parquet')}') AS r USING (key)`;
  const peak = watchPeak();
  const round = async () => {
    const started = performance.now();
    await connection.run(`CREATE OR REPLACE TABLE result AS ${query}`);
    return { ms: performance.now() - started, peakBytes: peak() };
  };
  await round(); // it has warmed up
  return {
    who: 'duckdb',
    command: `DuckDB in process, ${threads} threads`,
    round,
    async close() {
      connection.closeSync();
      instance.closeSync();
    },
  };
}

/** The version of GNU sort, or undefined where `sort` is another one. */
export function gnuSortVersion(): string | undefined {
  try {
    const [first] = execFileSync('sort', ['--version'], { encoding: 'utf8' }).split('\n');
    return first.includes('GNU') ? first : undefined;
  } catch {
    return undefined;
  }
}
