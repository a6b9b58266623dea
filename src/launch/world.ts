/**
 * The world: what a rank of a job has in its hands after `init()`.
 *
 * ```ts
 * import { init } from 'verbena/launch';
 *
 * const world = await init();
 * console.log(`rank ${world.rank} of ${world.size}, on ${world.host.name}`);
 * await world.barrier();
 * await world.finalize();          // from Node 24 on also by `await using world = await init()`
 * ```
 *
 * The same program runs alone (`node hello.ts`: a world of one), under `verbena run`, and under mpirun, srun, torchrun or Kubernetes.
 */

import { Worker as Thread } from 'node:worker_threads';
import type { Endpoint, Worker } from '../messaging/index.js';
import { loadAddon } from '../native/load.js';
import type { Topology } from '../schedule/topology.js';
import type { ConnectivityOptions, ConnectivityResult } from './connectivity.js';
import type { CoordinatorThreadInput, CoordinatorThreadMessage } from './coordinator-thread.js';
import { type Host, hostsOf, topologyOf } from './discovery.js';
import { type LaunchEnvironment, type Launcher, readEnvironment } from './environment.js';
import { LaunchError, type LaunchErrorCode } from './errors.js';
import type { WorldChoices } from './explanation.js';
import { takeHandedOver } from './handed-over.js';
import { describeSelf, machineId } from './host.js';
import { Liveness } from './liveness.js';
import type { Member } from './member.js';
import { RankWorker } from './rank-worker.js';
import { availableProviders, type Selection, selectProvider } from './selector.js';
import { makeSecret } from './store/authentication.js';
import type { BarrierOptions, Store } from './store/store.js';
import { TcpStore } from './store/tcp-store.js';
import { packageVersion } from './version.js';

export interface InitOptions {
  /** How long to wait for all ranks, ms. Default 60,000, or VERBENA_INIT_TIMEOUT_MS. */
  timeoutMs?: number;
  /** A call that waits longer is reported, ms; 0: never. Default 60,000, or VERBENA_STALL_MS. */
  stallMs?: number;
  /** Between hosts: a heartbeat every so often, ms. Default 1,000, or VERBENA_HEARTBEAT_MS. */
  heartbeatMs?: number;
  /** Between hosts: after so much silence a host has vanished, ms. Default 10,000, or VERBENA_SILENCE_MS. */
  silenceMs?: number;
  /** Where rank 0 holds the store it waits so long for the others in finalize(), ms. Default 30,000. */
  finalizeTimeoutMs?: number;
  /** Interface, address or prefix that other hosts reach this one by. Default: VERBENA_INTERFACE, or the best one. */
  interface?: string;
  /** Variables to read. Default: process.env. */
  env?: Readonly<Record<string, string | undefined>>;
  /** Gives up with the signal's reason; to the other ranks this one is lost then. Default: none. */
  signal?: AbortSignal;
}

/** Whoever holds the coordinator for this rank. */
interface Holder {
  readonly host: string;
  readonly port: number;
  readonly secret: string;
  /** Ends it when the others have left, where this rank holds it. */
  finish(): Promise<void>;
  /** Ends it now. */
  abort(): void;
}

function setting(
  options: InitOptions,
  name: 'stallMs' | 'heartbeatMs' | 'silenceMs' | 'timeoutMs',
  variable: string,
  standard: number,
): number {
  const given = options[name] ?? (options.env ?? process.env)[variable];
  const value = given === undefined || given === '' ? standard : Number(given);
  if (!Number.isFinite(value) || value < 0 || value > 2 ** 31 - 1) {
    throw new LaunchError('LAUNCH_INVALID', `${name} (or ${variable}) is 0 to ${2 ** 31 - 1} milliseconds: got ${given}`);
  }
  return value;
}

/** For those that another process holds. */
const ELSEWHERE = { finish: async () => {}, abort: () => {} };

/** Started by `verbena run`: the launcher holds the coordinator, and this process ends with it. */
function startedByRun({ launcher }: LaunchEnvironment): boolean {
  return launcher === 'verbena' && takeHandedOver() !== undefined;
}

/** Starts the coordinator in a thread of this process: this is rank 0. */
function startThread(input: CoordinatorThreadInput): Promise<Holder> {
  const worker = new Thread(new URL('./coordinator-thread.js', import.meta.url), { workerData: input, execArgv: [] });
  return new Promise((resolve, reject) => {
    let finished = () => {};
    worker.on('error', reject);
    worker.on('message', (message: CoordinatorThreadMessage) => {
      if ('error' in message) {
        void worker.terminate();
        reject(
          message.error.code
            ? new LaunchError(message.error.code as LaunchErrorCode, message.error.message)
            : new Error(message.error.message),
        );
      } else if ('finished' in message) finished();
      else {
        worker.unref();
        const finish = () =>
          new Promise<void>((done) => {
            worker.ref();
            finished = done;
            worker.on('exit', () => done());
            worker.postMessage('finish');
          });
        resolve({ host: '127.0.0.1', ...message, finish, abort: () => void worker.terminate() });
      }
    });
  });
}

/** Finds the coordinator, or becomes the process that holds it. Loads what it needs only then: a rank of `verbena run` needs none of it. */
async function findHolder(
  at: LaunchEnvironment,
  options: Required<Pick<InitOptions, 'timeoutMs' | 'heartbeatMs' | 'silenceMs' | 'finalizeTimeoutMs'>>,
  signal: AbortSignal | undefined,
): Promise<Holder> {
  const version = packageVersion();
  if (at.launcher === 'single') {
    const secret = makeSecret();
    const { Coordinator } = await import('./coordinator.js');
    const coordinator = await Coordinator.listen({ size: 1, secret, version, log: () => {} });
    return {
      host: '127.0.0.1',
      port: coordinator.port,
      secret,
      finish: async () => coordinator.close(),
      abort: () => coordinator.close(),
    };
  }
  if (startedByRun(at) && at.store && at.secret) return { ...at.store, secret: at.secret, ...ELSEWHERE };
  if (at.launcher === 'verbena' && at.job !== '' && at.secret === undefined) {
    throw new LaunchError(
      'LAUNCH_REFUSED',
      `this process was started by rank ${at.rank} of a job of verbena run and is no rank itself: it inherited the variables of the rank, but not the job's ` +
        'secret. Call init() in the rank only, or take VERBENA_RANK out of the environment of the child to make it a world of its own.',
      { rank: at.rank },
    );
  }
  const { attendMeeting, jobOfAncestor } = await import('./meeting.js');
  // Without a secret of the user's, ranks of one host meet where only this user can come.
  const job = at.secret === undefined ? at.job || jobOfAncestor(at.rankVariable, at.launcher) : undefined;
  if (at.rank === 0) {
    const meetOnly = job !== undefined;
    return startThread({
      size: at.size,
      version,
      address: meetOnly || at.oneHost ? '127.0.0.1' : '::',
      port: meetOnly ? 0 : (at.store?.port ?? 0),
      secret: at.secret,
      job: at.store && at.secret ? undefined : (job ?? at.job),
      machine: machineId(),
      heartbeatMs: options.heartbeatMs,
      silenceMs: options.silenceMs,
      finishMs: options.finalizeTimeoutMs,
    });
  }
  if (at.store && at.secret) return { ...at.store, secret: at.secret, ...ELSEWHERE };
  return { host: '127.0.0.1', ...(await attendMeeting(job ?? at.job, options.timeoutMs, signal)), ...ELSEWHERE };
}

/** One rank's view of the job. Made by `init()`. */
export class World {
  readonly rank: number;
  readonly size: number;
  /** Place among the ranks of this host, from 0, and how many they are. */
  readonly localRank: number;
  readonly localSize: number;
  /** The hosts of the world, in the order of their lowest rank. */
  readonly hosts: readonly Host[];
  /** The host of this rank. */
  readonly host: Host;
  /** Everything known of every rank, by rank. */
  readonly members: readonly Member[];
  /** Where ranks live, as collectives and planner take it. */
  readonly topology: Topology;
  readonly launcher: Launcher;
  /** How often `verbena run --restart` has started this job again. */
  readonly restart: number;
  readonly store: Store;
  readonly liveness: Liveness;
  readonly #store: TcpStore;
  readonly #worker: RankWorker;
  readonly #holder: Holder;
  readonly #interface: string | undefined;
  readonly #atExit: (code: number) => void;
  readonly #atIdle: () => void;
  #finalized: Promise<void> | undefined;
  #available: ReturnType<typeof availableProviders> | undefined;

  /** @internal */
  constructor(
    at: LaunchEnvironment,
    members: readonly Member[],
    store: TcpStore,
    liveness: Liveness,
    holder: Holder,
    wantedInterface: string | undefined,
  ) {
    this.#interface = wantedInterface;
    this.rank = at.rank;
    this.size = at.size;
    this.launcher = at.launcher;
    this.restart = at.restart;
    this.members = members;
    this.hosts = hostsOf(members);
    this.host = this.hosts.find(({ ranks }) => ranks.includes(at.rank)) as Host;
    this.localRank = this.host.ranks.indexOf(at.rank);
    this.localSize = this.host.ranks.length;
    this.topology = topologyOf(members);
    this.store = store;
    this.liveness = liveness;
    this.#store = store;
    this.#worker = new RankWorker(at.rank, members, store, liveness, () => this.#providers());
    this.#holder = holder;
    this.#atExit = (code) => liveness.leave(code);
    // A script that ends without finalize() has still come to its end.
    this.#atIdle = () => void this.finalize();
    process.on('exit', this.#atExit);
    process.on('beforeExit', this.#atIdle);
  }

  /** Waits for all ranks. @throws LAUNCH_TIMEOUT naming who is missing, LAUNCH_RANK_LOST. */
  barrier(options: Omit<BarrierOptions, 'count'> = {}): Promise<void> {
    return this.store.barrier('verbena/world', options);
  }

  /** Which provider carries traffic to a rank, and why: shm inside a host, a network between hosts. */
  async providerTo(rank: number): Promise<Selection> {
    const to = this.members[rank];
    if (!to) throw new LaunchError('LAUNCH_INVALID', `there is no rank ${rank}: ranks are 0 to ${this.size - 1}`);
    return selectProvider({ from: this.members[this.rank], to }, await this.#providers());
  }

  /** Engine, provider to every host and network addresses, with what was not chosen and why; `explainChoices` has the words. */
  async explain(): Promise<WorldChoices> {
    const { choicesOf } = await import('./explanation.js');
    return choicesOf(this.rank, this.members, await this.#providers(), this.#interface);
  }

  #providers(): ReturnType<typeof availableProviders> {
    this.#available ??= availableProviders();
    return this.#available;
  }

  /** The messaging worker that reaches every rank. Opened at the first use; connections are made when something is sent. @throws LAUNCH_UNREACHABLE. */
  get worker(): Promise<Worker> {
    return this.#worker.worker();
  }

  /** The way to a rank. The same object for the same rank. @throws LAUNCH_RANK_LOST, LAUNCH_TIMEOUT, LAUNCH_INVALID for a rank that does not exist. */
  endpoint(rank: number): Promise<Endpoint> {
    return this.#worker.endpoint(rank);
  }

  /** Tests which pairs of ranks can talk on which addresses; all ranks call it. See connectivity.ts. */
  async testConnectivity(options?: ConnectivityOptions): Promise<ConnectivityResult> {
    const { testConnectivity } = await import('./connectivity.js');
    return testConnectivity({ rank: this.rank, members: this.members, store: this.store }, options);
  }

  /**
   * Leaves the world in peace. The rank that holds the store waits for the others, up to `finalizeTimeoutMs`. Idempotent; a script that ends
   * without it is finalized as it ends.
   */
  finalize(): Promise<void> {
    this.#finalized ??= this.#finalize();
    return this.#finalized;
  }

  async #finalize(): Promise<void> {
    process.off('beforeExit', this.#atIdle);
    await this.#worker.close();
    this.liveness.leave(0);
    process.off('exit', this.#atExit);
    await this.#holder.finish();
    this.liveness.close();
    this.#store.close();
    current = undefined;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.finalize();
  }
}

let current: Promise<World> | undefined;

async function join(options: InitOptions): Promise<World> {
  const { signal } = options;
  signal?.throwIfAborted();
  const env = options.env ?? process.env;
  const at = readEnvironment(env, takeHandedOver()?.secret);
  const timeoutMs = setting(options, 'timeoutMs', 'VERBENA_INIT_TIMEOUT_MS', 60_000);
  const stallMs = setting(options, 'stallMs', 'VERBENA_STALL_MS', 60_000);
  const heartbeatMs = setting(options, 'heartbeatMs', 'VERBENA_HEARTBEAT_MS', 1000);
  const silenceMs = setting(options, 'silenceMs', 'VERBENA_SILENCE_MS', 10_000);
  const { finalizeTimeoutMs = 30_000 } = options;
  const stat = loadAddon().processStat(process.pid);
  if (!stat) throw new LaunchError('LAUNCH_INVALID', 'cannot read /proc/self/stat: is /proc mounted? Or raise ulimit -n');
  const wantedInterface = options.interface ?? env['VERBENA_INTERFACE'];
  const self = describeSelf(at.rank, stat[0], {
    virtualHost: at.virtualHost,
    interface: wantedInterface,
    engine: env['VERBENA_ENGINE'],
  });
  const holder = await findHolder(at, { timeoutMs, heartbeatMs, silenceMs, finalizeTimeoutMs }, signal);
  let liveness: Liveness | undefined;
  const waiting = (site: string) => {
    const { waits } = liveness ?? {};
    const slot = waits?.enter(waits.site(site)) ?? -1;
    return () => waits?.leave(slot);
  };
  let store: TcpStore | undefined;
  try {
    store = await TcpStore.connect({ ...holder, version: packageVersion(), timeoutMs, waiting, size: at.size, signal });
    const { header } = await store.call({ op: 'join', size: at.size, member: self }, undefined, timeoutMs, signal);
    const joined = header as unknown as { members: Member[]; ticket: string; heartbeatMs: number; silenceMs: number };
    liveness = new Liveness({
      rank: at.rank,
      members: joined.members,
      address: store.remoteAddress.replace(/^::ffff:/, ''),
      port: holder.port,
      ticket: joined.ticket,
      heartbeatMs: joined.heartbeatMs,
      silenceMs: joined.silenceMs,
      stallMs,
      holder: startedByRun(at) ? -1 : 0,
      endWithCoordinator: startedByRun(at),
    });
    return new World(at, joined.members, store, liveness, holder, wantedInterface);
  } catch (error) {
    liveness?.close();
    store?.close();
    holder.abort();
    throw error;
  }
}

/**
 * Joins the world: finds the other ranks and returns when all have come. Once per process; again after finalize().
 * @throws LaunchError: LAUNCH_ENVIRONMENT, LAUNCH_TIMEOUT naming who never arrived, LAUNCH_DUPLICATE_RANK, LAUNCH_SIZE_MISMATCH, LAUNCH_VERSION,
 *   LAUNCH_REFUSED, LAUNCH_RANK_LOST, LAUNCH_COORDINATOR_LOST, LAUNCH_INVALID when called twice; and the signal's reason
 */
export function init(options: InitOptions = {}): Promise<World> {
  if (current) {
    return Promise.reject(
      new LaunchError(
        'LAUNCH_INVALID',
        'init() was called before in this process: keep the world it returned, or finalize() it first',
      ),
    );
  }
  const joining = join(options);
  current = joining;
  joining.catch(() => {
    current = undefined;
  });
  return joining;
}
