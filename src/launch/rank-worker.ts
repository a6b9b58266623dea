/**
 * The messaging worker of a rank, and endpoints by rank. Nothing of it costs anything before the first use: then this rank opens its worker and says so in
 * the store, and every other rank, which waits for that word in the background, opens its own. Endpoints connect when something is sent.
 *
 * A rank opens a device for every kind of pair it is part of: shared memory for the ranks of its host, a network for the others. Each endpoint then goes by
 * the one that `providerTo` names, between virtual hosts too.
 */

import type { Context, Endpoint, Worker } from '../messaging/index.js';
import { engineOf } from './engine.js';
import { LaunchError } from './errors.js';
import type { Liveness } from './liveness.js';
import type { Member } from './member.js';
import { type Availability, deviceFor, selectProviders } from './selector.js';
import type { TcpStore } from './store/tcp-store.js';
import { ANYONE } from './waits.js';

const WANTED = 'verbena/worker/wanted';
const addressKey = (rank: number) => `verbena/worker/address/${rank}`;
/** Of a tag in a report: enough to recognise it. */
const LOW_BITS = 0x7fffffffn;
/** How long finalize() gives peers to take what was sent, ms. */
const CLOSE_MS = 5000;

export class RankWorker {
  readonly #rank: number;
  readonly #members: readonly Member[];
  readonly #store: TcpStore;
  readonly #liveness: Liveness;
  readonly #available: () => Promise<Availability>;
  readonly #endpoints = new Map<number, Promise<Endpoint>>();
  readonly #connected: (Endpoint | undefined)[] = [];
  #context: Context | undefined;
  #worker: Promise<Worker> | undefined;
  #closed = false;

  constructor(
    rank: number,
    members: readonly Member[],
    store: TcpStore,
    liveness: Liveness,
    available: () => Promise<Availability>,
  ) {
    this.#rank = rank;
    this.#members = members;
    this.#store = store;
    this.#liveness = liveness;
    this.#available = available;
    // Another rank's first use is enough: this one need not call anything to be reached.
    if (members.length > 1) void store.waitInBackground(WANTED).then(() => (this.#closed ? undefined : this.worker()), ignore);
  }

  /** @throws LAUNCH_UNREACHABLE where nothing joins this rank with another. */
  worker(): Promise<Worker> {
    if (this.#closed) return Promise.reject(new LaunchError('LAUNCH_CLOSED', 'the world is finalized'));
    this.#worker ??= this.#open();
    return this.#worker;
  }

  async #open(): Promise<Worker> {
    const { openContext } = await import('../messaging/context.js');
    const self = this.#members[this.#rank];
    this.#context = await openContext({
      ...(engineOf(this.#members) === 'ucx' ? { engine: 'ucx' } : { device: await this.#devices(self) }),
      host: self.host.id,
      name: `rank ${this.#rank}`,
    });
    const worker = await this.#context.createWorker();
    const { waits } = this.#liveness;
    worker.onWait = (what, endpoint, tag) => {
      const slot = waits.enter(waits.site(what), this.#rankOf(endpoint), tag === undefined ? -1 : Number(BigInt(tag) & LOW_BITS));
      return () => waits.leave(slot);
    };
    worker.vouchesFor = ({ peer }) => this.#liveness.board.vouchesFor(peer);
    await this.#store.set(addressKey(this.#rank), worker.address);
    await this.#store.set(WANTED, '1');
    return worker;
  }

  /** The devices of this rank. A fallback is said once, by the first rank of a host. */
  async #devices(self: Member): Promise<string[]> {
    const { providers, fallbacks } = selectProviders(this.#rank, this.#members, await this.#available());
    const isFirst = this.#members.find(({ host }) => host.id === self.host.id) === self;
    if (fallbacks.length > 0 && isFirst) {
      const more = fallbacks.length > 1 ? ` (and so to ${fallbacks.length - 1} more hosts)` : '';
      process.emitWarning(fallbacks[0] + more, { type: 'VerbenaWarning', code: 'VERBENA_FALLBACK' });
    }
    return providers.map((provider) => deviceFor(provider, self));
  }

  /** @throws LAUNCH_RANK_LOST, LAUNCH_TIMEOUT when the rank does not open its worker within a minute: its thread is blocked. */
  endpoint(rank: number): Promise<Endpoint> {
    if (!this.#members[rank]) {
      return Promise.reject(
        new LaunchError('LAUNCH_INVALID', `there is no rank ${rank}: ranks are 0 to ${this.#members.length - 1}`),
      );
    }
    let endpoint = this.#endpoints.get(rank);
    if (!endpoint) {
      endpoint = this.#connect(rank);
      this.#endpoints.set(rank, endpoint);
      endpoint.catch(() => this.#endpoints.delete(rank));
    }
    return endpoint;
  }

  async #connect(rank: number): Promise<Endpoint> {
    const worker = await this.worker();
    this.#liveness.check([rank]);
    const lost = new Promise<never>((_, reject) => {
      const stop = this.#liveness.onLost((one) => {
        if (one.rank !== rank) return;
        stop();
        reject(this.#liveness.errorOf(rank));
      });
    });
    const address = await Promise.race([this.#store.wait(addressKey(rank)), lost]);
    const endpoint = worker.connect(address);
    this.#connected[rank] = endpoint;
    return endpoint;
  }

  /** The rank behind an endpoint, as a wait names it. A peer may have a second endpoint, from its own side. */
  #rankOf(endpoint: Endpoint | undefined): number {
    if (endpoint === undefined) return ANYONE;
    const rank = this.#connected.findIndex(
      (one) => one === endpoint || (one !== undefined && one.source >= 0 && one.source === endpoint.source),
    );
    return rank < 0 ? ANYONE : rank;
  }

  async close(): Promise<void> {
    this.#closed = true;
    const worker = await this.#worker?.catch(ignore);
    await worker?.close({ timeoutMs: CLOSE_MS }).catch(ignore); // a peer that does not answer is left behind
    await this.#context?.close();
  }
}

function ignore(): undefined {
  return undefined;
}
