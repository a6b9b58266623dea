/** Other systems that do the same work: Spark, GNU sort, DuckDB. Each returns the milliseconds of its rounds, or says how it is installed. */

import { execFile, execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findProgram } from '../bench/child-program.js';
import { keySql } from './bench-data.js';

const ROOT = fileURLToPath(new URL('../../../../../', import.meta.url));
const SPARK_PYTHON = join(ROOT, 'build', 'spark', 'bin', 'python');
const SPARK_PROGRAM = join(ROOT, 'bench', 'peers', 'spark-datasets.py');
const SPARK_INSTALL = 'python3 -m venv build/spark && build/spark/bin/pip install pyspark==3.5.1 (needs Java 17)';

export interface PeerRun {
  readonly ms: readonly number[];
  readonly command: string;
  readonly answer?: number;
}

export interface PeerInput {
  readonly workload: string;
  /** Folders by name, in the form that the peer reads. */
  readonly input: Readonly<Record<string, string>>;
  /** A small part of it, for warming up. */
  readonly warm: Readonly<Record<string, string>>;
  readonly scratch: string;
  readonly rounds: number;
  readonly threads: number;
  readonly signal: AbortSignal;
}

/** How to get it, or undefined when it is there. */
export function missingSpark(): string | undefined {
  return existsSync(SPARK_PYTHON) && findProgram('java') ? undefined : SPARK_INSTALL;
}

export async function runSpark({ workload, input, warm, scratch, rounds, threads, signal }: PeerInput): Promise<PeerRun> {
  mkdirSync(scratch, { recursive: true });
  const output = join(scratch, 'spark-out');
  const job = { workload, input, warm, output, scratch, rounds, threads, partitions: 2 * threads, memory: '6g' };
  const text = await new Promise<string>((resolve, reject) => {
    const options = { signal, maxBuffer: 1 << 24, killSignal: 'SIGKILL' as const };
    execFile(SPARK_PYTHON, [SPARK_PROGRAM, JSON.stringify(job)], options, (error, stdout, stderr) =>
      error ? reject(new Error(`Spark: ${stderr.slice(-500)}`)) : resolve(stdout),
    );
  });
  rmSync(output, { recursive: true, force: true });
  const ms = text
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => (JSON.parse(line) as { ms: number }).ms);
  return { ms, command: `pyspark 3.5, local[${threads}], DataFrames` };
}

export async function runGnuSort({ input, scratch, rounds, threads, signal }: PeerInput): Promise<PeerRun> {
  mkdirSync(scratch, { recursive: true });
  const folder = input['records'];
  const files = readdirSync(folder).map((name) => join(folder, name));
  const output = join(scratch, 'gnu-sorted');
  const args = [`--parallel=${threads}`, '-S', '2G', '-T', scratch, '-o', output, ...files];
  const ms: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const started = performance.now();
    await new Promise<void>((resolve, reject) => {
      execFile('sort', args, { env: { ...process.env, LC_ALL: 'C' }, signal, killSignal: 'SIGKILL' }, (error) =>
        error ? reject(error) : resolve(),
      );
    });
    ms.push(performance.now() - started);
    rmSync(output, { force: true });
  }
  return { ms, command: `LC_ALL=C sort --parallel=${threads} -S 2G` };
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

export async function runDuckDb({ workload, input, rounds, threads }: PeerInput): Promise<PeerRun> {
  const duckdb = await findDuckDb();
  if (!duckdb) throw new Error('not installed');
  const instance = await duckdb.DuckDBInstance.create(':memory:', { threads: String(threads) });
  const connection = await instance.connect();
  const rows = `read_parquet('${join(input['rows'], '*.parquet')}')`;
  const query =
    workload === 'groupby'
      ? `SELECT key, sum(value) AS total FROM ${rows} GROUP BY key`
      : `SELECT * FROM ${rows} AS l JOIN read_parquet('${join(input['small'] ?? '', '*.parquet')}') AS r USING (key)`;
  const ms: number[] = [];
  let answer = 0;
  for (let round = 0; round <= rounds; round++) {
    const started = performance.now();
    await connection.run(`CREATE OR REPLACE TABLE result AS ${query}`);
    if (round > 0) ms.push(performance.now() - started); // the first warms up
  }
  const counted = await connection.runAndReadAll('SELECT count(*) FROM result');
  answer = Number(counted.getRows()[0][0]);
  connection.closeSync();
  instance.closeSync();
  return { ms, command: `DuckDB in process, ${threads} threads`, answer };
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
