/** Rounds of an elastic training whose ranks are killed at random moments, all from one seed. */

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { FileStore } from '../../src/launch/store/file-store.js';
import { constantRate, Random, Sampler, Sgd, trainModel } from '../../src/nn/index.js';
import { runRanks } from '../collectives/ranks.js';
import { signalInside } from '../interop/two-hosts.js';
import { bars, smallModel } from './scenarios/digits.js';
import { difference } from './trials.js';

const SCENARIO = new URL('./scenarios/survivor.js', import.meta.url);
const ENVIRONMENT = { VERBENA_BLAS: 'own', VERBENA_STEP_MS: '3' };

export interface SurvivalOptions {
  /** Ranks that are killed, at moments drawn from the seed. */
  readonly kills: number;
  /** Each is replaced by a newcomer. Default false. */
  readonly replace?: boolean;
  /** The provider of messages that ranks use, as between hosts. Default: none, shared memory. */
  readonly over?: string;
  /** Words that run a rank on its host; a newcomer is run where the rank was that it replaces. Default: all are here. */
  readonly inside?: (rank: number) => readonly string[];
  /** They are stopped instead, and go on when the others are through; those leave them out after this time, ms. Default: they are killed. */
  readonly stoppedMs?: number;
}

let expected: Float32Array | undefined;

/** What one process without any loss ends with. */
function undisturbed(): Float32Array {
  if (expected === undefined) {
    process.env['VERBENA_BLAS'] = 'own';
    const model = smallModel('plain', 24);
    const sampler = new Sampler({ count: 203, globalBatch: 24, seed: 3 });
    const optimizer = new Sgd(model, { momentum: 0.9 });
    trainModel({ model, optimizer, data: bars(203, 11), sampler, learningRate: constantRate(0.02), epochs: 12 });
    expected = model.parameters;
  }
  return expected;
}

export interface Survived {
  readonly lost: number;
  readonly joined: number;
}

/** One round of `size` ranks. Those who are left must end with the parameters of a run without any loss: every gradient was applied once. */
export async function survive(seed: number, size: number, options: SurvivalOptions): Promise<Survived> {
  const { kills, replace = false, over = '', inside, stoppedMs } = options;
  const environment = { ...ENVIRONMENT, VERBENA_OVER: over, ...(stoppedMs && { VERBENA_TIMEOUT_MS: String(stoppedMs) }) };
  const random = new Random(seed);
  const victims = Uint32Array.from({ length: size }, (_, i) => i);
  random.shuffle(victims);
  const moments = Array.from({ length: kills }, () => random.uniform() * 160);
  const newcomers: { child: ChildProcess; said: Record<string, unknown>[] }[] = [];
  const events: Record<string, unknown>[] = [];
  let started = 0;
  const heard = (_rank: number, line: Record<string, unknown>, ranks: readonly ChildProcess[]) => {
    events.push(line);
    if (line['what'] === 'done') for (const i of moments.keys()) goOn(ranks[victims[i]]);
    if (line['what'] !== 'started' || ++started !== size) return;
    const exchange = new FileStore({ directory: line['directory'] as string });
    let left = kills;
    for (const [i, after] of moments.entries()) {
      setTimeout(() => {
        if (stoppedMs === undefined) ranks[victims[i]].kill('SIGKILL');
        else signalInside(ranks[victims[i]], 'SIGSTOP');
        if (replace) newcomers.push(startNewcomer(line['directory'] as string, environment, inside?.(victims[i]) ?? []));
        if (--left === 0) void exchange.set('struck', '');
      }, after);
    }
  };
  const results = await runRanks(SCENARIO, size, {
    heard,
    inside,
    env: () => ({ ...environment, VERBENA_AWAIT_NEWCOMER: replace ? '1' : '0' }),
    watchdogMs: 180_000,
  });
  const ends = await Promise.all(newcomers.map(({ child }) => ended(child)));
  const survivors = results.filter(({ rank }) => !victims.subarray(0, kills).includes(rank));
  const expected = stoppedMs !== undefined && over !== '' ? 1 : 'SIGKILL';
  for (const { rank, end, stderr } of results) {
    if (survivors.some((one) => one.rank === rank)) continue;
    assert.equal(end, expected, `seed ${seed}: ${stderr}`);
    if (end === 1) assert.match(stderr, /took this one for dead/, `seed ${seed}`);
  }
  for (const { end, stderr } of survivors) assert.equal(end, 0, `seed ${seed}: ${stderr}`);
  const finals = [...survivors.map(({ said }) => said), ...newcomers.filter((_, i) => ends[i] === 0).map(({ said }) => said)];
  for (const said of finals) {
    const last = said.at(-1) as { what: string; steps: number; parameters: string };
    assert.equal(last.what, 'done', `seed ${seed}`);
    assert.equal(last.steps, 12 * 9, `seed ${seed}`);
    const bytes = Buffer.from(last.parameters, 'base64');
    const parameters = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
    const apart = difference(parameters, undisturbed());
    assert.ok(apart < 2e-3, `seed ${seed}: the result is ${apart} from that of an undisturbed run`);
  }
  const count = (what: string) => new Set(events.filter((line) => line['what'] === what).map((line) => line['step'])).size;
  return { lost: count('lost'), joined: count('joined') };
}

function goOn(rank: ChildProcess): void {
  try {
    signalInside(rank, 'SIGCONT');
  } catch {
    // It has ended.
  }
}

function startNewcomer(
  directory: string,
  environment: Readonly<Record<string, string>>,
  inside: readonly string[],
): { child: ChildProcess; said: Record<string, unknown>[] } {
  const { NODE_TEST_CONTEXT: _, ...inherited } = process.env;
  const argument = JSON.stringify({ rank: -1, size: 0, directory });
  const [command, ...words] = [...inside, process.execPath, fileURLToPath(SCENARIO), argument];
  const child = spawn(command, words, {
    env: { ...inherited, ...environment },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const said: Record<string, unknown>[] = [];
  if (child.stdout)
    createInterface({ input: child.stdout }).on('line', (line) => said.push(JSON.parse(line) as Record<string, unknown>));
  return { child, said };
}

/** A newcomer that came when all was over is ended. */
function ended(child: ChildProcess): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve(child.exitCode);
  return new Promise((resolve) => {
    const timer = setTimeout(() => child.kill('SIGKILL'), 500);
    child.once('close', (code) => {
      clearTimeout(timer);
      resolve(code);
    });
  });
}
