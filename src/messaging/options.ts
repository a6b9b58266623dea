/** Options of the messaging layer, each with its default and its range, and the check that there are no others. */

import { MessagingError } from './errors.js';
import type { RegistrationCacheOptions } from './memory/registration-cache.js';
import type { ProgressMode } from './progress/driver.js';
import type { Costs, ProtocolName } from './protocols/protocol.js';

export interface ContextOptions {
  /** What carries the messages: 'verbs', the devices named below; 'ucx', libucp with its own choice of transports. Default 'verbs'. */
  readonly engine?: 'verbs' | 'ucx';
  /**
   * As `openDevice` takes it: 'shm', 'ibverbs:rxe0', 'auto'; or several, as ['shm', 'roce']: every peer is reached by the best that both sides have.
   * Default 'auto', at most 8.
   */
  readonly device?: string | readonly string[];
  /** Words that stand for this machine: peers with the same words are reached by shared memory. Default: what the kernel tells. */
  readonly host?: string;
  /** Name of this process in messages and, where the context opens devices, in `verbena top`. Default: that of the first device, which is the script's file name by default. */
  readonly name?: string;
  /** What the link costs. Default: what `verbena tune` measured here, else defaults of the provider. */
  readonly costs?: Partial<Costs>;
  /** Bounds of the registration cache. */
  readonly registrations?: RegistrationCacheOptions;
}

export interface WorkerOptions {
  /** How callbacks and promises make progress. Default 'adaptive'. */
  readonly mode?: ProgressMode;
  /** Longest spin of the adaptive and poll modes, microseconds. Default 50, range 0..10000. */
  readonly spinUs?: number;
  /** Every wait gives up after this time unless it says otherwise, milliseconds. Default 30000; Infinity: never. */
  readonly timeoutMs?: number;
  /** Slots of each ring, a power of two. Default 256, range 8..65536. */
  readonly ringSlots?: number;
  /**
   * Bytes of each ring for payloads beyond 40 bytes, a power of two. Default 262144, range 4096..2^26. A quarter is the longest eager message. On UCX: bytes that a
   * peer may send unasked beyond what is kept.
   */
  readonly ringBytes?: number;
  /** 'auto': mapped where the device can; 'immediate': WRITE_WITH_IMM everywhere. Default 'auto'. */
  readonly ring?: 'auto' | 'immediate';
  /** Unexpected messages are kept up to this many bytes. Default 8 MiB, from 0. */
  readonly unexpectedBytes?: number;
  /** And up to this many. Default 4096, from 1. */
  readonly unexpectedMessages?: number;
  /** Queue pairs per endpoint and device, for large transfers. Default 1, range 1..16. */
  readonly lanes?: number;
  /** Fragment of the pipelined rendezvous, bytes. Default 512 KiB, from 4096. */
  readonly fragmentBytes?: number;
  /** Use this protocol wherever it can be used. Default: by cost. */
  readonly protocol?: ProtocolName;
  /** Rendezvous from this many bytes on. Default: by cost. */
  readonly rendezvousBytes?: number;
  /** Where the device does not notice a peer's death by itself: silence after which it counts as lost, milliseconds. Default 10000, from 10. */
  readonly keepaliveMs?: number;
  /** Bytes of a stream that the peer may send ahead of reading. Default 262144, from 4096. */
  readonly streamWindowBytes?: number;
}

interface Rule {
  readonly low?: number;
  readonly high?: number;
  readonly powerOfTwo?: boolean;
  readonly words?: readonly string[];
}

const WORKER_RULES: Readonly<Record<keyof WorkerOptions, Rule>> = {
  mode: { words: ['poll', 'event', 'adaptive'] },
  spinUs: { low: 0, high: 10_000 },
  timeoutMs: { low: 0, high: Number.POSITIVE_INFINITY },
  ringSlots: { low: 8, high: 65_536, powerOfTwo: true },
  ringBytes: { low: 4096, high: 2 ** 26, powerOfTwo: true },
  ring: { words: ['auto', 'immediate'] },
  unexpectedBytes: { low: 0, high: 2 ** 40 },
  unexpectedMessages: { low: 1, high: 2 ** 20 },
  lanes: { low: 1, high: 16 },
  fragmentBytes: { low: 4096, high: 2 ** 30 },
  protocol: {},
  rendezvousBytes: { low: 0, high: Number.POSITIVE_INFINITY },
  keepaliveMs: { low: 10, high: 3_600_000 },
  streamWindowBytes: { low: 4096, high: 2 ** 30 },
};

/** Throws MSG_INVALID for an unknown option or a value out of range. */
export function checkWorkerOptions(options: WorkerOptions): void {
  for (const [name, value] of Object.entries(options)) {
    const rule = WORKER_RULES[name as keyof WorkerOptions];
    if (rule === undefined) {
      throw new MessagingError('MSG_INVALID', `a worker has no option '${name}': it has ${Object.keys(WORKER_RULES).join(', ')}`);
    }
    if (value === undefined) continue;
    if (rule.words !== undefined && !rule.words.includes(value as string)) {
      throw new MessagingError('MSG_INVALID', `${name} must be ${rule.words.join(', ')}: got '${String(value)}'`);
    }
    if (rule.low === undefined) continue;
    const number = value as number;
    const fits = number >= rule.low && number <= (rule.high as number);
    if (!fits || (rule.powerOfTwo && (number & (number - 1)) !== 0)) {
      const power = rule.powerOfTwo ? ', a power of two' : '';
      throw new MessagingError('MSG_INVALID', `${name} must be ${rule.low} to ${rule.high}${power}: got ${String(value)}`);
    }
  }
}

const CONTEXT_OPTIONS = ['engine', 'device', 'host', 'name', 'costs', 'registrations'];

export function checkContextOptions(options: ContextOptions): void {
  for (const name of Object.keys(options)) {
    if (!CONTEXT_OPTIONS.includes(name)) {
      throw new MessagingError('MSG_INVALID', `a context has no option '${name}': it has ${CONTEXT_OPTIONS.join(', ')}`);
    }
  }
  const { engine } = options;
  if (engine !== undefined && engine !== 'verbs' && engine !== 'ucx') {
    throw new MessagingError('MSG_INVALID', `engine must be 'verbs' or 'ucx': got '${String(engine)}'`);
  }
  ucxSettings(options);
}

/** UCX's settings as the options give them ('TLS=tcp;NET_DEVICES=eth0', or ''), undefined for the verbs engine. Throws MSG_INVALID. */
export function ucxSettings({ engine, device = engine === 'ucx' ? 'ucx' : 'auto' }: ContextOptions): string | undefined {
  const list = typeof device === 'string' ? [device] : device;
  const isUcx = (name: string) => /^ucx(:|$)/.test(name);
  if (!list.some(isUcx) && engine !== 'ucx') return undefined;
  if (engine === 'verbs' || list.length !== 1 || !isUcx(list[0])) {
    throw new MessagingError(
      'MSG_INVALID',
      "engine 'ucx' has one device, 'ucx' or 'ucx:TLS=...': leave out `device`, or give its settings",
    );
  }
  return list[0].slice(4);
}
