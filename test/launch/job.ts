/**
 * Jobs as a user starts them, and the check that nothing of them is left: no process that carries the job's mark, no name in /dev/shm, no socket file,
 * no other file in the directory for temporary files.
 */

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';

export const VERBENA = fileURLToPath(new URL('../../../bin/verbena.js', import.meta.url));

/** The compiled program of ranks: its first argument says what they do. */
export const ACTOR = fileURLToPath(new URL('../fixtures/rank-actor.js', import.meta.url));

/** Lets time pass: for polling outside conditions, never as synchronisation. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Waits until `look` finds something. */
export async function until<T>(what: string, look: () => T | undefined | false, limitMs = 20_000): Promise<T> {
  const deadline = performance.now() + limitMs;
  for (;;) {
    const found = look();
    if (found !== undefined && found !== false) return found;
    if (performance.now() > deadline) throw new Error(`not within ${limitMs} ms: ${what}`);
    await pause(5);
  }
}

/** A command that runs, with everything it has written so far. */
export class Running {
  readonly process: ChildProcess;
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  stdout = '';
  stderr = '';

  constructor(process: ChildProcess, limitMs: number) {
    this.process = process;
    const watchdog = setTimeout(() => process.kill('SIGKILL'), limitMs);
    process.stdout?.on('data', (chunk) => {
      this.stdout += chunk;
    });
    process.stderr?.on('data', (chunk) => {
      this.stderr += chunk;
    });
    process.stdin?.on('error', () => {});
    this.ended = new Promise((resolve, reject) => {
      process.on('error', reject);
      process.on('close', (code, signal) => {
        clearTimeout(watchdog);
        resolve({ code, signal });
      });
    });
  }

  get pid(): number {
    return this.process.pid ?? 0;
  }

  /** JSON documents among the lines of output, with or without a prefix. */
  get said(): Record<string, unknown>[] {
    return this.stdout
      .split('\n')
      .map((line) => line.replace(/^\[ *\d+\] /, ''))
      .filter((line) => line.startsWith('{') && line.endsWith('}'))
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  }

  /** The lines that `type` is said in. */
  heard<T = Record<string, unknown>>(type: string): T[] {
    return this.said.filter((message) => message['type'] === type) as T[];
  }

  /** Waits until `count` have said `type`. */
  hear<T = Record<string, unknown>>(type: string, count: number, limitMs = 30_000): Promise<T[]> {
    return until(
      `${count} x '${type}'; heard ${this.stdout}${this.stderr}`,
      () => {
        const found = this.heard<T>(type);
        if (found.length >= count) return found;
        if (this.process.exitCode !== null && this.process.stdout?.destroyed) {
          throw new Error(`ended with ${this.process.exitCode} before ${count} x '${type}': ${this.stdout}${this.stderr}`);
        }
        return undefined;
      },
      limitMs,
    );
  }
}

/** Processes alive that carry a mark in their environment. */
export function marked(mark: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        readlinkSync(`/proc/${pid}/exe`); // fails for a zombie
        return readFileSync(`/proc/${pid}/environ`, 'latin1').includes(mark);
      } catch {
        return false;
      }
    })
    .map(Number);
}

/** Names of Verbena in shared memory. (A socket file would be in the directory for temporary files, and an abstract name ends with its process.) */
function names(): Set<string> {
  return new Set(readdirSync('/dev/shm').filter((name) => name.includes('verbena')));
}

/** One test's jobs: a directory of their own for temporary files, and a mark by which their processes are found. */
export class Stage {
  readonly directory = mkdtempSync(join(tmpdir(), 'verbena-launch-'));
  readonly mark = `VERBENA_TEST_MARK=${randomBytes(8).toString('hex')}`;
  readonly #before = names();
  readonly #running: Running[] = [];

  /** Runs `verbena` with these words. */
  verbena(words: readonly string[], env: Record<string, string> = {}, limitMs = 60_000): Running {
    return this.start(process.execPath, [VERBENA, ...words], env, limitMs);
  }

  start(command: string, args: readonly string[], env: Record<string, string> = {}, limitMs = 60_000): Running {
    const { NODE_TEST_CONTEXT: _, ...inherited } = process.env;
    const [name, value] = this.mark.split('=');
    const child = spawn(command, args, {
      cwd: this.directory,
      env: { ...inherited, TMPDIR: this.directory, NO_COLOR: '1', [name]: value, ...env },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    const running = new Running(child, limitMs);
    this.#running.push(running);
    return running;
  }

  /** What is left now. */
  leftovers(): string[] {
    const files = readdirSync(this.directory).map((name) => `file ${name}`);
    const fresh = [...names()].filter((name) => !this.#before.has(name)).map((name) => `name ${name}`);
    return [...marked(this.mark).map((pid) => `process ${pid} ${commandOf(pid)}`), ...fresh, ...files];
  }

  /** Fails when something of the jobs is still there, and does not go. */
  async assertNothingLeft(): Promise<void> {
    const deadline = performance.now() + 20_000;
    while (this.leftovers().length > 0 && performance.now() < deadline) await pause(20);
    assert.deepEqual(this.leftovers(), [], 'left behind');
  }

  /** Ends everything that a failed test has left. */
  async abandon(): Promise<void> {
    for (const { process } of this.#running) process.kill('SIGKILL');
    for (const pid of marked(this.mark)) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // It ended meanwhile.
      }
    }
  }

  remove(): void {
    rmSync(this.directory, { recursive: true, force: true });
  }
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
  } catch {
    return '';
  }
}

/** A test of jobs: at its end nothing of them is left. */
export function jobTest(name: string, body: (stage: Stage, context: TestContext) => Promise<void>, limitMs = 90_000): void {
  test(name, { timeout: limitMs }, async (context) => {
    const stage = new Stage();
    try {
      await body(stage, context);
      await stage.assertNothingLeft();
    } finally {
      await stage.abandon();
      stage.remove();
    }
  });
}
