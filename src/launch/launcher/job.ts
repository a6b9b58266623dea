/**
 * A job: N ranks from start to end.
 *
 * The coordinator stands first, then all ranks start at once. The first rank that fails is named with its last lines; the others get SIGTERM and, after the grace time,
 * SIGKILL. Whatever happens, `runJob` returns only when no process of the job is left.
 */

import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import type { Readable } from 'node:stream';
import { loadAddon } from '../../native/load.js';
import { Coordinator } from '../coordinator.js';
import { LaunchError } from '../errors.js';
import { machineId } from '../host.js';
import { explainAddresses, usableAddresses } from '../interfaces.js';
import { stallReport } from '../stall-report.js';
import { makeSecret } from '../store/authentication.js';
import { packageVersion } from '../version.js';
import type { Binding } from './binding.js';
import {
  exitCodeOf,
  exitInWords,
  type RankExit,
  type RankHandle,
  type RankSpec,
  startRank,
  type TakeLine,
} from './rank-process.js';
import { RemoteHost, remoteOptions } from './remote-host.js';

export interface JobOptions {
  readonly size: number;
  readonly script: string;
  readonly args: readonly string[];
  /** Options of node before the script, such as those that run TypeScript. */
  readonly execArgv: readonly string[];
  readonly cwd: string;
  /** Environment of the ranks, before Verbena's own variables. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The whole job ends after this, ms; 0: never. */
  readonly timeoutMs: number;
  /** How often the job is started again when a rank failed. */
  readonly restarts: number;
  readonly binding: Binding;
  /** Ranks have this long between SIGTERM (or a forwarded signal) and SIGKILL, ms. */
  readonly graceMs: number;
  /** Ranks per virtual host, one number a host; undefined: none. */
  readonly virtualHosts: readonly number[] | undefined;
  /** Hosts that are reached by ssh, with their ranks; undefined: all ranks are here. */
  readonly hosts: readonly { readonly name: string; readonly ranks: number }[] | undefined;
  /** Variables for ranks of other hosts, which have their own environment otherwise. */
  readonly remoteEnv: Readonly<Record<string, string>>;
  /** Interface, address or prefix by which other hosts reach this one. Default: the best one. */
  readonly interface: string | undefined;
  /** The others go on when a rank fails. */
  readonly keepGoing: boolean;
  /** Port of the store; 0: any free one. */
  readonly port: number;
  /** For rank 0. */
  readonly stdin: Readable | undefined;
  takeLine: TakeLine;
  /** A line about the job itself. */
  tell(line: string): void;
}

/** What a job of ranks of this machine alone has, where its starter wants nothing else. */
export const LOCAL_JOB = {
  execArgv: [],
  timeoutMs: 0,
  restarts: 0,
  binding: 'none',
  virtualHosts: undefined,
  hosts: undefined,
  remoteEnv: {},
  interface: undefined,
  keepGoing: false,
  port: 0,
  stdin: undefined,
} satisfies Partial<JobOptions>;

export interface RankResult {
  readonly rank: number;
  readonly pid: number;
  readonly host: string;
  readonly code: number | null;
  readonly signal: string | null;
  /** Whether it had called init(). */
  readonly joined: boolean;
}

export interface JobResult {
  readonly exitCode: number;
  readonly ranks: readonly RankResult[];
  /** The first rank that failed, in words, with its last lines. */
  readonly failure: { readonly rank: number; readonly reason: string; readonly lastLines: readonly string[] } | undefined;
  /** What ended the job from outside: a signal, or the timeout. */
  readonly ended: string | undefined;
  readonly restarts: number;
}

/** Lines of a failing rank that are repeated. */
const LAST_LINES = 20;

/** The last lines of a rank, whatever the stream. */
class Tail {
  readonly #lines: string[] = [];

  push(line: string): void {
    this.#lines.push(line);
    if (this.#lines.length > LAST_LINES) this.#lines.shift();
  }

  get lines(): string[] {
    return [...this.#lines];
  }
}

/** One start of the job. */
class Attempt {
  readonly #options: JobOptions;
  readonly #restart: number;
  readonly #coordinator: Coordinator;
  readonly #handles: RankHandle[] = [];
  readonly #newcomers: RankHandle[] = [];
  readonly #remotes: RemoteHost[];
  /** Where ranks reach the store. */
  readonly #address: string;
  readonly #tails: Tail[];
  readonly #results = new Map<number, RankResult>();
  readonly #secret: string;
  readonly #job = randomBytes(8).toString('hex');
  #failure: JobResult['failure'];
  #failureCode = 0;
  #ended: string | undefined;
  #endCode = 0;
  #killTimer: NodeJS.Timeout | undefined;

  private constructor(options: JobOptions, restart: number, secret: string, coordinator: Coordinator, address: string) {
    this.#options = options;
    this.#address = address;
    const remote = remoteOptions(process.env);
    this.#remotes = (options.hosts ?? []).map(({ name }) => new RemoteHost(name, remote, (...line) => this.#line(...line)));
    this.#restart = restart;
    this.#secret = secret;
    this.#coordinator = coordinator;
    this.#tails = Array.from({ length: options.size }, () => new Tail());
  }

  static async open(options: JobOptions, restart: number): Promise<Attempt> {
    // Compiled here once where it must be, and not by all ranks at the same time.
    loadAddon();
    const secret = makeSecret();
    const address = options.hosts ? ownAddress(options) : '127.0.0.1';
    const coordinator = await Coordinator.listen({
      size: options.size,
      secret,
      version: packageVersion(),
      port: options.port,
      address: address === '127.0.0.1' ? address : '::',
      machine: machineId(),
      confirmMs: 100,
      log: options.tell,
    });
    return new Attempt(options, restart, secret, coordinator, address);
  }

  async run(): Promise<JobResult> {
    const { size, timeoutMs, stdin } = this.#options;
    let timer: NodeJS.Timeout | undefined;
    try {
      const ends: Promise<void>[] = [];
      for (let rank = 0; rank < size && this.#ended === undefined; rank++) {
        const spec = this.#spec(rank);
        const remote = this.#remotes[placeOf(rank, size, this.#layout).host];
        const handle = remote ? await remote.start(spec) : await startRank(spec, hostname(), (...line) => this.#line(...line));
        this.#handles.push(handle);
        ends.push(handle.exited.then((exit) => this.#exit(handle, exit)));
      }
      if (timeoutMs > 0) timer = setTimeout(() => void this.#late(), timeoutMs);
      const first = this.#handles[0]?.stdin;
      if (stdin && first) stdin.pipe(first);
      await Promise.all(ends);
      this.#killLater();
      await Promise.all(this.#newcomers.map(({ exited }) => exited));
    } catch (error) {
      this.#ended ??= 'a rank that cannot be started'; // what the others end with is no news
      for (const handle of this.#running) handle.signal('SIGKILL');
      await Promise.all(this.#running.map(({ exited }) => exited));
      throw error;
    } finally {
      clearTimeout(timer);
      clearTimeout(this.#killTimer);
      stdin?.unpipe();
      for (const remote of this.#remotes) remote.close();
      this.#coordinator.close();
    }
    return {
      exitCode: this.#ended ? this.#endCode : this.#failureCode,
      ranks: [...this.#results.values()].sort((a, b) => a.rank - b.rank),
      failure: this.#failure,
      ended: this.#ended,
      restarts: this.#restart,
    };
  }

  /** Passes a signal on; one that asks for an end is followed by SIGKILL after the grace time. */
  signal(signal: NodeJS.Signals, code: number): void {
    if (signal === 'SIGUSR2') {
      for (const handle of this.#handles) handle.signal(signal);
      return;
    }
    this.#ended ??= signal;
    this.#endCode ||= code;
    this.#end(signal, -1);
  }

  async newcomer(args: readonly string[]): Promise<void> {
    const rank = this.#spec(0);
    const env = { ...this.#options.env, VERBENA_STORE: rank.env['VERBENA_STORE'] };
    const spec: RankSpec = { ...rank, rank: -1, args, binding: 'none', stdin: false, env };
    const handle = await startRank(spec, hostname(), (...line) => this.#line(...line));
    this.#newcomers.push(handle);
    await handle.exited;
    this.#newcomers.splice(this.#newcomers.indexOf(handle), 1);
  }

  /** Ranks per host, where there are several. */
  get #layout(): readonly number[] | undefined {
    return this.#options.hosts?.map(({ ranks }) => ranks) ?? this.#options.virtualHosts;
  }

  #spec(rank: number): RankSpec {
    const { size, virtualHosts, hosts, remoteEnv, execArgv, script, args, cwd, binding, stdin } = this.#options;
    const { host, localRank, localSize } = placeOf(rank, size, this.#layout);
    const env = hosts ? remoteEnv : this.#options.env;
    // Virtual hosts share the cores of this one.
    const [bindRank, bindSize] = hosts ? [localRank, localSize] : [rank, size];
    return {
      rank,
      script,
      args,
      execArgv,
      cwd,
      binding,
      localRank: bindRank,
      localSize: bindSize,
      handOver: { secret: this.#secret },
      stdin: stdin !== undefined && rank === 0,
      env: {
        ...env,
        VERBENA_SECRET: undefined,
        VERBENA_RANK: String(rank),
        VERBENA_SIZE: String(size),
        VERBENA_LOCAL_RANK: String(localRank),
        VERBENA_LOCAL_SIZE: String(localSize),
        VERBENA_STORE: `${this.#address.includes(':') ? `[${this.#address}]` : this.#address}:${this.#coordinator.port}`,
        VERBENA_JOB: this.#job,
        VERBENA_RESTART: String(this.#restart),
        VERBENA_VIRTUAL_HOST: virtualHosts ? String(host) : undefined,
        RANK: String(rank),
        WORLD_SIZE: String(size),
        LOCAL_RANK: String(localRank),
        LOCAL_WORLD_SIZE: String(localSize),
      },
    };
  }

  #line(rank: number, stream: 'stdout' | 'stderr', line: string): void {
    this.#tails[rank]?.push(line);
    this.#options.takeLine(rank, stream, line);
  }

  #exit(handle: RankHandle, exit: RankExit): void {
    const { rank, pid, host } = handle;
    const joined = this.#coordinator.hasJoined(rank);
    this.#results.set(rank, { rank, pid, host, ...exit, joined });
    if (exitCodeOf(exit) === 0) {
      this.#coordinator.left(rank);
      return;
    }
    this.#coordinator.lost(rank, exitInWords(exit));
    if (this.#ended !== undefined || (this.#failure && !this.#options.keepGoing)) return;
    const reason = `rank ${rank} (pid ${pid} on ${host}) ${exitInWords(exit)}${joined ? '' : ' before it called init()'}`;
    const { lines } = this.#tails[rank];
    this.#options.tell(
      lines.length > 0
        ? `${reason}; its last lines:\n${lines.map((line) => `    | ${line}`).join('\n')}`
        : `${reason}; it wrote nothing`,
    );
    if (this.#failure) return;
    this.#failure = { rank, reason, lastLines: lines };
    this.#failureCode = exitCodeOf(exit);
    const others = this.#handles.filter(({ rank: other }) => !this.#results.has(other)).length;
    if (this.#options.keepGoing || others === 0) return;
    this.#options.tell(
      `ending the other ${others === 1 ? 'rank' : `${others} ranks`}, with SIGKILL after ${this.#options.graceMs} ms`,
    );
    this.#end('SIGTERM', rank);
  }

  get #running(): RankHandle[] {
    return [...this.#handles.filter(({ rank }) => !this.#results.has(rank)), ...this.#newcomers];
  }

  #end(signal: NodeJS.Signals, except: number): void {
    for (const handle of this.#running) if (handle.rank !== except) handle.signal(signal);
    this.#killLater();
  }

  #killLater(): void {
    this.#killTimer ??= setTimeout(() => {
      for (const handle of this.#running) handle.signal('SIGKILL');
    }, this.#options.graceMs);
  }

  async #late(): Promise<void> {
    if (this.#ended !== undefined || this.#failure) return;
    this.#ended = 'timeout';
    this.#endCode = 124;
    const where = stallReport(await this.#coordinator.whereabouts());
    this.#options.tell(`the job did not end within ${this.#options.timeoutMs} ms and is ended now\n${where}`);
    this.#end('SIGTERM', -1);
  }
}

/** The address of this host that the hosts of the job can reach. */
function ownAddress(options: JobOptions): string {
  if (options.interface === undefined && options.hosts?.every(({ name }) => /(^|@)(localhost|127\.\d+\.\d+\.\d+)$/.test(name)))
    return '127.0.0.1';
  const [best] = usableAddresses(explainAddresses(options.interface));
  if (!best) {
    throw new LaunchError(
      'LAUNCH_HOST',
      'this host has no network address that other hosts could reach: configure one, or start the job on a host that has',
    );
  }
  return best.address;
}

function placeOf(rank: number, size: number, layout: readonly number[] | undefined) {
  let first = 0;
  for (const [host, localSize] of (layout ?? [size]).entries()) {
    if (rank < first + localSize) return { host, localRank: rank - first, localSize };
    first += localSize;
  }
  throw new LaunchError('LAUNCH_INVALID', `the hosts have room for ${first} ranks, and there is a rank ${rank}`);
}

/** A job that runs. */
export interface RunningJob {
  /** Passes a signal on to all ranks. `code`: the exit code of a job that it ended. */
  signal(signal: NodeJS.Signals, code: number): void;
  /**
   * Starts the script once more, with other words, as a process of this host that is no rank: `storeOfJob` gives it the store, and its lines come as those of rank -1. It ends when the
   * launcher does, and at the latest `graceMs` after the ranks. Resolves when it has ended. @throws LAUNCH_HOST
   */
  newcomer(args: readonly string[]): Promise<void>;
  readonly result: Promise<JobResult>;
}

/** Starts a job. `result` rejects with LAUNCH_PORT_IN_USE or LAUNCH_HOST when it cannot be started. */
export function startJob(options: JobOptions): RunningJob {
  let attempt: Attempt | undefined;
  let ended: { signal: NodeJS.Signals; code: number } | undefined;
  const run = async (): Promise<JobResult> => {
    for (let restart = 0; ; restart++) {
      attempt = await Attempt.open(options, restart);
      if (ended) attempt.signal(ended.signal, ended.code);
      const result = await attempt.run();
      if (result.exitCode === 0 || result.ended !== undefined || restart >= options.restarts) return result;
      options.tell(`starting again, restart ${restart + 1} of ${options.restarts}`);
    }
  };
  return {
    signal(signal, code) {
      if (signal !== 'SIGUSR2') ended ??= { signal, code };
      attempt?.signal(signal, code);
    },
    newcomer: async (args) => attempt?.newcomer(args),
    result: run(),
  };
}
