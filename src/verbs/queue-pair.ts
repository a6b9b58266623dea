/**
 * The queue pair: a send queue and a receive queue, and the rules of what may be done in which state.
 *
 * Everything that is the same for every provider lives here: the state machine over the tables of qp-state.ts, and `connect`, which walks it.
 * A provider implements how requests are posted and what a transition means to it.
 */

import { ACCESS_REMOTE_ATOMIC, ACCESS_REMOTE_READ, ACCESS_REMOTE_WRITE } from './access.js';
import type { CompletionQueue } from './completion-queue.js';
import { VerbsError } from './errors.js';
import type { MemoryRegion } from './memory-region.js';
import type { QpType } from './opcode.js';
import { type AddressVector, type QpAttributes, type QpState, transitionFault } from './qp-state.js';
import type { SharedReceiveQueue } from './shared-receive-queue.js';
import type { PreparedRecv, PreparedSend, PrepareSpec, RecvWorkRequest, SendWorkRequest } from './work-request.js';

/** What a queue pair is made from. */
export interface QpInit {
  /** The transport. */
  type: QpType;
  /** Where completions of sends go. */
  sendCq: CompletionQueue;
  /** Where completions of receives go; may be the same as sendCq. */
  recvCq: CompletionQueue;
  /** Receive requests come from here instead of the queue pair's own queue. A DCT must have one. */
  srq?: SharedReceiveQueue;
  /** Send requests outstanding at most. Default 128, range 1..65536. */
  maxSendWr?: number;
  /** Receive requests outstanding at most. Default 128, range 1..65536. Ignored with an srq. */
  maxRecvWr?: number;
  /** Elements of a send list. Default 4, range 1..64. */
  maxSendSge?: number;
  /** Elements of a receive list. Default 3, range 1..64. */
  maxRecvSge?: number;
  /** Bytes that can be sent inline. Default 256, range 0..4096. */
  maxInline?: number;
  /** Make a completion for every send, whatever the request says. Default: false. */
  sqSigAll?: boolean;
  /** Key that initiators of a DCT must name. Default 0. */
  dcKey?: number;
}

/** What a peer needs to connect to a queue pair. Plain JSON: exchange it by any means. */
export interface QpAddress {
  /** Version of this format. */
  readonly v: 1;
  readonly provider: string;
  readonly av: AddressVector;
  readonly qpNum: number;
  /** First packet sequence number. */
  readonly psn: number;
  /** Largest path MTU, bytes. */
  readonly mtu: number;
  readonly type: QpType;
  readonly qkey?: number;
  readonly dcKey?: number;
}

/** Attributes that `connect` uses where the caller is silent. */
export interface ConnectAttributes {
  /** Bits of access.ts that the peer gets on this queue pair. Default: remote read, write and atomic. */
  accessFlags?: number;
  /** Default 14 (67 ms). */
  timeout?: number;
  /** Default 7. */
  retryCnt?: number;
  /** Default 7: endless. */
  rnrRetry?: number;
  /** Default 1 (10 us). */
  minRnrTimer?: number;
  /** Default 16. */
  maxRdAtomic?: number;
  /** Default 16. */
  maxDestRdAtomic?: number;
  /** Q_Key of a UD queue pair. Default 0x11111111. */
  qkey?: number;
}

const LIMITS: readonly [
  name: 'maxSendWr' | 'maxRecvWr' | 'maxSendSge' | 'maxRecvSge' | 'maxInline',
  normal: number,
  low: number,
  high: number,
][] = [
  ['maxSendWr', 128, 1, 65536],
  ['maxRecvWr', 128, 1, 65536],
  ['maxSendSge', 4, 1, 64],
  ['maxRecvSge', 3, 1, 64],
  ['maxInline', 256, 0, 4096],
];

/** Where a queue pair lives, as peers have to know it. */
interface Home {
  readonly provider: string;
  readonly av: AddressVector;
  readonly capabilities: { readonly mtu: number };
}

/** The Q_Key of `connect` where the caller is silent. */
const DEFAULT_QKEY = 0x11111111;

const KNOWN_INIT = new Set<string>(['type', 'sendCq', 'recvCq', 'srq', 'sqSigAll', 'dcKey', ...LIMITS.map((row) => row[0])]);

export abstract class QueuePair {
  readonly type: QpType;
  readonly sendCq: CompletionQueue;
  readonly recvCq: CompletionQueue;
  readonly srq: SharedReceiveQueue | undefined;
  readonly maxSendWr: number;
  readonly maxRecvWr: number;
  readonly maxSendSge: number;
  readonly maxRecvSge: number;
  readonly maxInline: number;
  readonly sqSigAll: boolean;
  readonly dcKey: number;
  /** Everything set by modify so far; `query()` copies it. */
  protected readonly attributes: QpAttributes = {};
  #state: QpState = 'RESET';

  constructor(init: QpInit) {
    for (const name of Object.keys(init)) {
      if (!KNOWN_INIT.has(name)) {
        throw new VerbsError('VERBS_INVALID', `createQp has no option '${name}': it has ${[...KNOWN_INIT].join(', ')}`);
      }
    }
    const values: Record<string, number> = {};
    for (const [name, normal, low, high] of LIMITS) {
      const value = init[name] ?? normal;
      if (!Number.isInteger(value) || value < low || value > high) {
        throw new VerbsError('VERBS_INVALID', `${name} must be ${low} to ${high}: got ${String(value)}`);
      }
      values[name] = value;
    }
    if (init.type === 'DCT' && !init.srq)
      throw new VerbsError('VERBS_INVALID', 'a DCT receives through a shared receive queue: give srq');
    this.type = init.type;
    this.sendCq = init.sendCq;
    this.recvCq = init.recvCq;
    this.srq = init.srq;
    this.maxSendWr = values['maxSendWr'];
    this.maxRecvWr = values['maxRecvWr'];
    this.maxSendSge = values['maxSendSge'];
    this.maxRecvSge = values['maxRecvSge'];
    this.maxInline = values['maxInline'];
    this.sqSigAll = init.sqSigAll ?? false;
    this.dcKey = init.dcKey ?? 0;
  }

  abstract readonly qpNum: number;
  protected abstract readonly device: Home;
  /** The packet sequence number that this side sends first; 0 where there are no packets. */
  protected psn = 0;

  /** What to tell a peer. */
  address(): QpAddress {
    const { type, qpNum, psn, dcKey } = this;
    const { provider, av, capabilities } = this.device;
    const qkey = this.attributes.qkey ?? DEFAULT_QKEY;
    const address = { v: 1, provider, av, qpNum, psn, mtu: capabilities.mtu, type } as const;
    return { ...address, ...(type === 'UD' && { qkey }), ...(type === 'DCT' && { dcKey }) };
  }

  /**
   * Posts one request or a chain with one doorbell. Throws VERBS_ILLEGAL (type, state), VERBS_INVALID (a bad field), VERBS_QUEUE_FULL; `badIndex`
   * names the first rejected request, and those before it are posted.
   */
  abstract postSend(wr: SendWorkRequest | readonly SendWorkRequest[]): void;

  /** Posts one receive request or a chain. Throws as postSend. */
  abstract postRecv(wr: RecvWorkRequest | readonly RecvWorkRequest[]): void;

  /** Makes a request that is posted without an object: the hot form. Throws as postSend for what can be checked now. */
  abstract prepare(spec: PrepareSpec): PreparedSend;

  /** Makes a receive request that is posted without an object. */
  abstract prepareRecv(region: MemoryRegion): PreparedRecv;

  /**
   * Joins a multicast group (UD). The group is a GID that starts with ff; on InfiniBand it has a LID, too, which the subnet manager gave. Throws
   * VERBS_UNSUPPORTED, VERBS_ILLEGAL, VERBS_INVALID.
   */
  abstract attachMulticast(group: string, lid?: number): void;

  /** Leaves a multicast group. */
  abstract detachMulticast(group: string, lid?: number): void;

  /** Closes the queue pair. Outstanding requests are gone without completions, as ibv_destroy_qp does. */
  abstract close(): void;

  /** Carries out a legal transition. Called before the state changes; throwing keeps the old state. */
  protected abstract transition(from: QpState, to: QpState, attributes: QpAttributes): void;

  get state(): QpState {
    return this.#state;
  }

  /** Port and partition that `connect` uses. */
  protected get home(): { pkeyIndex: number; port: number } {
    return { pkeyIndex: 0, port: 1 };
  }

  /** Whether queue pairs of that provider are on the same wire. */
  protected speaksWith(provider: string): boolean {
    return provider === this.device.provider;
  }

  /** A state change that the provider found, not the user asked for: an error, a drained queue. */
  protected enter(state: QpState): void {
    this.#state = state;
  }

  /** Moves to a state with the attributes that the transition takes (ibv_modify_qp). Throws VERBS_ILLEGAL and names the rule. */
  modify(state: QpState, attributes: QpAttributes = {}): void {
    const fault = transitionFault(this.type, this.#state, state, attributes);
    if (fault) throw new VerbsError('VERBS_ILLEGAL', fault);
    this.transition(this.#state, state, attributes);
    if (state === 'RESET') {
      for (const name of Object.keys(this.attributes) as (keyof QpAttributes)[]) delete this.attributes[name];
    } else {
      Object.assign(this.attributes, attributes);
    }
    this.#state = state;
  }

  /** State and attributes (ibv_query_qp). */
  query(): QpAttributes & { state: QpState } {
    return { ...this.attributes, state: this.#state };
  }

  /**
   * RESET to RTS in one call: towards `peer` for RC and UC, alone for UD, DCI and DCT (a DCT ends in RTR). Throws as modify, and VERBS_INVALID when the
   * addresses do not fit each other (provider, type, path MTU).
   */
  async connect(peer?: QpAddress, options: ConnectAttributes = {}): Promise<void> {
    const own = this.address();
    const connected = this.type === 'RC' || this.type === 'UC';
    if (connected && !peer)
      throw new VerbsError('VERBS_INVALID', `a ${this.type} queue pair connects to one peer: give its address()`);
    if (peer && connected) {
      if (peer.v !== 1)
        throw new VerbsError(
          'VERBS_INVALID',
          `address format ${String(peer.v)} is not known here: this is format 1; update the older side`,
        );
      if (!this.speaksWith(peer.provider)) {
        throw new VerbsError(
          'VERBS_INVALID',
          `the peer is on provider '${peer.provider}', this device on '${own.provider}': open the same one`,
        );
      }
      if (peer.type !== this.type)
        throw new VerbsError('VERBS_INVALID', `the peer is a ${peer.type} queue pair, this one is ${this.type}`);
    }
    if (this.#state !== 'RESET') this.modify('RESET');
    const accessFlags = options.accessFlags ?? ACCESS_REMOTE_READ | ACCESS_REMOTE_WRITE | ACCESS_REMOTE_ATOMIC;
    const pathMtu = Math.min(own.mtu, peer?.mtu ?? own.mtu);
    const base = this.home;
    const sender = {
      maxRdAtomic: options.maxRdAtomic ?? 16,
      retryCnt: options.retryCnt ?? 7,
      rnrRetry: options.rnrRetry ?? 7,
      timeout: options.timeout ?? 14,
    };
    const minRnrTimer = options.minRnrTimer ?? 1;
    const maxDestRdAtomic = options.maxDestRdAtomic ?? 16;
    switch (this.type) {
      case 'UD':
        this.modify('INIT', { ...base, qkey: options.qkey ?? DEFAULT_QKEY });
        this.modify('RTR');
        this.modify('RTS', { sqPsn: own.psn });
        return;
      case 'DCI':
        this.modify('INIT', base);
        this.modify('RTR', { pathMtu });
        this.modify('RTS', { sqPsn: own.psn, ...sender });
        return;
      case 'DCT':
        this.modify('INIT', { ...base, accessFlags });
        this.modify('RTR', { pathMtu, minRnrTimer, maxDestRdAtomic });
        return;
      case 'RC':
      case 'UC': {
        const target = peer as QpAddress;
        const reach = { av: target.av, pathMtu, destQpNum: target.qpNum, rqPsn: target.psn };
        this.modify('INIT', { ...base, accessFlags });
        this.modify('RTR', this.type === 'RC' ? { ...reach, maxDestRdAtomic, minRnrTimer } : reach);
        this.modify('RTS', this.type === 'RC' ? { sqPsn: own.psn, ...sender } : { sqPsn: own.psn });
      }
    }
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
