/**
 * What launching costs: `node dist/bench/launch.js` prints one JSON document.
 *
 *   start      two ranks until init() has returned in both, against two bare Node processes that print a line; medians of alternating rounds
 *   many       64 ranks start, run a barrier and end
 *   memory     what an idle rank holds beside an idle bare Node process (proportional set size, so that shared pages count once)
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const VERBENA = fileURLToPath(new URL('../../bin/verbena.js', import.meta.url));
const LAUNCH = new URL('../src/launch/index.js', import.meta.url).href;
const ROUNDS = 7;

const directory = mkdtempSync(join(tmpdir(), 'verbena-bench-launch-'));
const file = (name: string, text: string) => {
  const path = join(directory, name);
  writeFileSync(path, text);
  return path;
};
const IDLE = 'console.log(JSON.stringify({ pid: process.pid }));\nsetInterval(() => {}, 1000);\n';
/** Ends with this process; ranks end with their launcher. */
const bare = file('bare.mjs', `${IDLE}process.stdin.resume().on('end', () => process.exit());\n`);
const rank = `import { init } from '${LAUNCH}';\nawait init();\n`;
const rankJs = file('rank.mjs', rank + IDLE);
const rankTs = file('rank.mts', `${rank}const nothing: undefined = undefined;\nvoid nothing;\n${IDLE}`);
const barrier = file(
  'barrier.mjs',
  `import { init } from '${LAUNCH}';\nconst world = await init();\nawait world.barrier();\nawait world.finalize();\n`,
);

const median = (values: readonly number[]) => [...values].sort((a, b) => a - b)[values.length >> 1];

/** Starts commands, and waits until `count` lines with a pid have come. */
async function ready(
  commands: readonly (readonly string[])[],
  count: number,
): Promise<{ pids: number[]; children: ChildProcess[]; ms: number }> {
  const started = performance.now();
  const pids: number[] = [];
  const children = commands.map((args) => spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] }));
  await new Promise<void>((resolve, reject) => {
    for (const child of children) {
      child.on('exit', (code) => reject(new Error(`ended early with ${code}`)));
      if (!child.stdout) continue;
      createInterface({ input: child.stdout }).on('line', (line) => {
        const { pid } = JSON.parse(line.slice(line.indexOf('{'))) as { pid: number };
        if (pids.push(pid) === count) resolve();
      });
    }
  });
  return { pids, children, ms: performance.now() - started };
}

async function end(children: readonly ChildProcess[]): Promise<void> {
  await Promise.all(
    children.map((child) => {
      child.removeAllListeners('exit');
      const ended = new Promise((resolve) => child.on('exit', resolve));
      child.kill('SIGTERM');
      return ended;
    }),
  );
}

async function timeOf(commands: readonly (readonly string[])[], count: number): Promise<number> {
  const { children, ms } = await ready(commands, count);
  await end(children);
  return ms;
}

/** Proportional set size of a process, bytes. */
function proportionalBytes(pid: number): number {
  const match = /^Pss:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'));
  return Number(match?.[1] ?? 0) * 1024;
}

async function idleBytes(commands: readonly (readonly string[])[], count: number): Promise<number> {
  const { pids, children } = await ready(commands, count);
  await new Promise((resolve) => setTimeout(resolve, 500));
  const bytes = median(pids.map(proportionalBytes));
  await end(children);
  return bytes;
}

const run = (script: string, ranks: number) => [[VERBENA, 'run', '-n', String(ranks), script]];
const bareTwice = [[bare], [bare]];

try {
  const times = { bare: [] as number[], js: [] as number[], ts: [] as number[] };
  for (let round = 0; round < ROUNDS + 1; round++) {
    const measured = {
      bare: await timeOf(bareTwice, 2),
      js: await timeOf(run(rankJs, 2), 2),
      ts: await timeOf(run(rankTs, 2), 2),
    };
    if (round === 0) continue; // the first round warms the file cache and builds the addon where it must
    for (const name of ['bare', 'js', 'ts'] as const) times[name].push(measured[name]);
  }
  const started = performance.now();
  const many = spawn(process.execPath, run(barrier, 64)[0], { stdio: ['ignore', 'ignore', 'inherit'] });
  const code = await new Promise((resolve) => many.on('exit', resolve));
  const manyMs = performance.now() - started;

  const ranks = 8;
  const nodeBytes = await idleBytes(
    Array.from({ length: ranks }, () => [bare]),
    ranks,
  );
  const jsBytes = await idleBytes(run(rankJs, ranks), ranks);
  const tsBytes = await idleBytes(run(rankTs, ranks), ranks);
  const mb = (bytes: number) => Number((bytes / 1e6).toFixed(1));
  const ms = (values: readonly number[]) => Math.round(median(values));
  const document = {
    node: process.version,
    cores: availableParallelism(),
    start: {
      unit: 'ms',
      bareNode: ms(times.bare),
      javascript: ms(times.js),
      typescript: ms(times.ts),
      moreThanNode: { javascript: ms(times.js) - ms(times.bare), typescript: ms(times.ts) - ms(times.bare) },
      limit: 1000,
    },
    many: { unit: 's', ranks: 64, exitCode: code, total: Number((manyMs / 1000).toFixed(1)), limit: 60 },
    memory: {
      unit: 'MB',
      bareNode: mb(nodeBytes),
      moreThanNode: { javascript: mb(jsBytes - nodeBytes), typescript: mb(tsBytes - nodeBytes) },
      limit: 20,
    },
  };
  console.log(JSON.stringify(document, undefined, 2));
} finally {
  rmSync(directory, { recursive: true });
}
