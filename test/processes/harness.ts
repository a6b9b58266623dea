/**
 * Tests with real processes: starting a scenario, talking to it in JSON lines, a watchdog that kills it, and the check that nothing is left.
 *
 * A scenario is a compiled file of `scenarios/` that runs in a child process or in a worker thread; both look the same from here. What it
 * says is an object with a `type`; a scenario that fails says `failed` with its stack, which becomes the error of the waiting test.
 */

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { type TestContext, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';

/** What scenarios and tests say to each other. */
export type Message = { readonly type: string } & Readonly<Record<string, unknown>>;

/** How a scenario is started. */
export interface ScenarioOptions {
  /** Killed after this time. Default 30,000 ms. */
  watchdogMs?: number;
  /** Arguments of node. */
  execArgv?: readonly string[];
  /** A command and its arguments that node is started by, such as strace. */
  wrapper?: readonly string[];
  uid?: number;
  gid?: number;
}

/** A scenario that runs: in a process or in a worker thread. */
export abstract class Scenario {
  readonly name: string;
  readonly #watchdog: NodeJS.Timeout;
  readonly #messages: Message[] = [];
  #waiter: { type: string; resolve(message: Message): void; reject(error: Error): void } | undefined;
  #ended: string | undefined;

  constructor(name: string, watchdogMs: number) {
    this.name = name;
    this.#watchdog = globalThis.setTimeout(() => {
      this.end(`the watchdog ended '${name}' after ${watchdogMs} ms`);
      this.kill();
    }, watchdogMs);
    this.#watchdog.unref();
  }

  /** Ends it at once. */
  abstract kill(): void;
  abstract say(message: Message): void;
  /** Resolves when it has ended. */
  abstract readonly exited: Promise<void>;

  get alive(): boolean {
    return this.#ended === undefined;
  }

  /** The next message, which must be of this type. */
  hear<T = Message>(type: string): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#waiter = { type, resolve: resolve as (message: Message) => void, reject };
      this.#deliver();
    });
  }

  protected heard(message: Message): void {
    this.#messages.push(message);
    this.#deliver();
  }

  /** Marks it as ended: whoever waits for a message fails with the reason. */
  protected end(reason: string): void {
    clearTimeout(this.#watchdog);
    this.#ended ??= reason;
    this.#deliver();
  }

  #deliver(): void {
    const waiter = this.#waiter;
    if (!waiter) return;
    const message = this.#messages.shift();
    if (message) {
      this.#waiter = undefined;
      if (message.type === waiter.type) waiter.resolve(message);
      else waiter.reject(new Error(`'${this.name}' said ${JSON.stringify(message)} instead of '${waiter.type}'`));
    } else if (this.#ended !== undefined) {
      this.#waiter = undefined;
      waiter.reject(new Error(`'${this.name}' ended before '${waiter.type}': ${this.#ended}`));
    }
  }
}

/** A scenario in a process of its own. */
export class ScenarioProcess extends Scenario {
  readonly process: ChildProcess;
  readonly exited: Promise<void>;
  #stderr = '';

  constructor(name: string, input: object, options: ScenarioOptions) {
    super(name, options.watchdogMs ?? 30_000);
    const command = [...(options.wrapper ?? []), process.execPath, ...(options.execArgv ?? []), scenarioPath(name)];
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    const { uid, gid } = options;
    this.process = spawn(command[0], [...command.slice(1), JSON.stringify(input)], {
      stdio: ['pipe', 'pipe', 'pipe'],
      env,
      ...(uid === undefined ? {} : { uid }),
      ...(gid === undefined ? {} : { gid }),
    });
    const { stdin, stdout, stderr } = this.process;
    stdin?.on('error', () => {});
    stderr?.on('data', (text: Buffer) => {
      this.#stderr = (this.#stderr + text).slice(-4000);
    });
    if (stdout) createInterface({ input: stdout }).on('line', (line) => this.heard(JSON.parse(line) as Message));
    this.exited = new Promise((resolve) => {
      this.process.on('error', (error) => {
        this.end(String(error));
        resolve();
      });
      this.process.on('close', (code, signal) => {
        this.end(`exit ${code ?? signal}\n${this.#stderr}`);
        resolve();
      });
    });
  }

  get pid(): number {
    return this.process.pid ?? 0;
  }

  say(message: Message): void {
    this.process.stdin?.write(`${JSON.stringify(message)}\n`);
  }

  kill(signal: NodeJS.Signals = 'SIGKILL'): void {
    this.process.kill(signal);
  }
}

/** A scenario in a thread of this process. */
export class ScenarioWorker extends Scenario {
  readonly worker: Worker;
  readonly exited: Promise<void>;

  constructor(name: string, input: object, options: ScenarioOptions) {
    super(name, options.watchdogMs ?? 30_000);
    this.worker = new Worker(scenarioPath(name), { workerData: input });
    this.worker.on('message', (message: Message) => this.heard(message));
    this.exited = new Promise((resolve) => {
      this.worker.on('error', (error) => this.end(String(error)));
      this.worker.on('exit', (code) => {
        this.end(`exit ${code}`);
        resolve();
      });
    });
  }

  say(message: Message): void {
    this.worker.postMessage(message);
  }

  kill(): void {
    void this.worker.terminate();
  }
}

function scenarioPath(name: string): string {
  return fileURLToPath(new URL(`./scenarios/${name}.js`, import.meta.url));
}

/** What a process test works with. */
export class Stagehand {
  readonly context: TestContext;
  readonly #started: Scenario[] = [];

  constructor(context: TestContext) {
    this.context = context;
  }

  process(name: string, input: object = {}, options: ScenarioOptions = {}): ScenarioProcess {
    const scenario = new ScenarioProcess(name, input, options);
    this.#started.push(scenario);
    return scenario;
  }

  worker(name: string, input: object = {}, options: ScenarioOptions = {}): ScenarioWorker {
    const scenario = new ScenarioWorker(name, input, options);
    this.#started.push(scenario);
    return scenario;
  }

  /** Numbers of the processes that were started. */
  get pids(): number[] {
    return this.#started.flatMap((scenario) => (scenario instanceof ScenarioProcess ? [scenario.pid] : []));
  }

  /** Waits for those who were told to end; kills the others and names them. */
  async clear(): Promise<string[]> {
    const left: string[] = [];
    for (const scenario of this.#started) {
      const late = new AbortController();
      const ended = await Promise.race([
        scenario.exited.then(() => true),
        setTimeout(20_000, false, { signal: late.signal }).catch(() => false),
      ]);
      late.abort();
      if (!ended) {
        left.push(scenario.name);
        scenario.kill();
        await scenario.exited;
      }
    }
    return left;
  }

  /** Kills everything, for a test that has failed already. */
  async abandon(): Promise<void> {
    for (const scenario of this.#started) if (scenario.alive) scenario.kill();
    await Promise.all(this.#started.map((scenario) => scenario.exited));
  }
}

/**
 * A test with processes: at the end every scenario has ended by itself or by the test, and the machine has what it had before: no name in
 * /dev/shm, no socket.
 */
export function processTest(name: string, body: (hand: Stagehand) => Promise<void>, limitMs = 60_000): void {
  test(name, { timeout: limitMs }, async (context) => {
    const hand = new Stagehand(context);
    const before = traces(hand);
    try {
      await body(hand);
    } catch (error) {
      await hand.abandon();
      throw error;
    }
    assert.deepEqual(await hand.clear(), [], 'scenarios that did not end');
    // Other tests run at the same time: theirs come and go; ours must be gone soon.
    const left = () => [...traces(hand)].filter((name) => !before.has(name));
    for (let i = 0; i < 200 && left().length > 0; i++) await pause(50);
    assert.deepEqual(left(), [], 'left behind');
  });
}

/** Names of Verbena in /dev/shm, names of unix sockets that carry a process number of the test, and sockets that this process has open. */
function traces(hand: Stagehand): Set<string> {
  const numbers = new RegExp(`\\b(${[process.pid, ...hand.pids].join('|')})\\b`);
  const names = readFileSync('/proc/net/unix', 'utf8')
    .split('\n')
    .map((line) => line.slice(line.lastIndexOf(' ') + 1))
    .filter((name) => name.includes('verbena') && numbers.test(name));
  const open = readdirSync('/proc/self/fd').map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      return '';
    }
  });
  const shared = readdirSync('/dev/shm').filter((entry) => entry.includes('verbena'));
  return new Set([...shared, ...names, ...open.filter((target) => target.startsWith('socket:'))]);
}

/** Lets time pass: for polling outside conditions, never as synchronisation. */
export function pause(ms: number): Promise<void> {
  return setTimeout(ms);
}

/** The seed of a randomised test: VERBENA_SEED replays one. Printed by the caller. */
export function chooseSeed(): number {
  const given = process.env['VERBENA_SEED'];
  return given === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(given);
}
