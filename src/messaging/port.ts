/** A port: a worker's place on one rail. Its completion queue, the word that tells peers whether it sleeps, and the listener that peers connect to. */

import type { CompletionQueue, MemoryRegion, Listener as VerbsListener } from '../verbs/index.js';
import { WorkCompletions } from '../verbs/work-completions.js';
import type { Lane } from './lane.js';
import { MAILBOX_BYTES, Mailbox } from './mailbox.js';
import type { Rail } from './rail.js';
import { AtomicResults } from './rma/atomic-results.js';
import type { VerbsEndpoint } from './verbs-endpoint.js';

const CQ_DEPTH = 16_384;
const ATOMICS_AT_ONCE = 512;
/** Puts up to this size are taken at once: their memory may be used again when the call returns. */
export const SMALL_PUT_BYTES = 256;

export class Port {
  /** Number of the rail. */
  readonly index: number;
  readonly rail: Rail;
  readonly cq: CompletionQueue;
  readonly completions: WorkCompletions = new WorkCompletions(32);
  readonly mailbox: Mailbox;
  /** Memory for requests that carry nothing. */
  readonly scratch: MemoryRegion;
  readonly scratchWords: Int32Array;
  readonly atomicResults: AtomicResults;
  /** Takes connections for the worker. */
  readonly service: VerbsListener;
  readonly lanes: Map<number, { readonly endpoint: VerbsEndpoint; readonly lane: Lane }> = new Map();
  /** Endpoints that use it, and those of them whose rings are counted by immediates: then every poll looks at the queue. */
  endpoints = 0;
  counted = 0;
  /** READs, WRITEs and atomics under way: while there are some, every poll looks at the queue. */
  operations = 0;
  /** The queue is being waited for. */
  isAwaited = false;

  constructor(rail: Rail, service: VerbsListener) {
    const { device, pd } = rail;
    this.index = rail.index;
    this.rail = rail;
    this.service = service;
    this.cq = device.createCq({ depth: CQ_DEPTH, mode: 'event' });
    const mailbox = pd.register(device.alloc(MAILBOX_BYTES), { remoteWrite: true });
    this.mailbox = new Mailbox(mailbox, device.capabilities.directAccess);
    this.scratch = pd.register(device.alloc(SMALL_PUT_BYTES), { localWrite: true });
    this.scratchWords = new Int32Array(this.scratch.bytes.buffer, this.scratch.bytes.byteOffset, SMALL_PUT_BYTES >> 2);
    this.atomicResults = new AtomicResults(pd.register(device.alloc(ATOMICS_AT_ONCE * 8), { localWrite: true }));
  }

  close(): void {
    this.service.close();
    this.cq.close();
    for (const region of [this.mailbox.region, this.scratch, this.atomicResults.region]) region.deregister();
  }
}
