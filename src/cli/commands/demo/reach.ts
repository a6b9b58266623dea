/**
 * The initiator's part of the demonstration: a READ, a WRITE and many atomics on the memory of a process whose thread is blocked.
 *
 * That it is blocked is shown by its own memory: the loop writes its clock there, and the count of its event-loop turns stands still.
 */

import { setTimeout as delay } from 'node:timers/promises';
import type { CompletionQueue, Device, MemoryRegion, QueuePair, RemoteRegion, SendWorkRequest } from '../../../verbs/index.js';
import { openDevice } from '../../../verbs/open-device.js';
import { STATUS } from '../../../verbs/status.js';
import { WorkCompletions } from '../../../verbs/work-completions.js';
import type { CpuPair } from '../../cpus.js';
import { ChildProgram } from '../bench/child-program.js';
import { median } from '../bench/statistics.js';
import {
  CLOCK,
  COUNTER,
  GREETING,
  PRIMES,
  RELEASED,
  REPLY,
  readText,
  TARGET_BYTES,
  TEXT_BYTES,
  TURNS,
  writeText,
} from './target-layout.js';
import type { Awakening, TargetAddress } from './target-process.js';

const PROGRAM = new URL('./target-process.js', import.meta.url);
const BATCH = 1000;
const BATCHES = 50;
const TIMEOUT_MS = 5000;

/** The target as its memory shows it from outside. */
export interface Sight {
  readonly clockMs: number;
  readonly turns: number;
  readonly primes: number;
}

export interface Step {
  readonly name: 'READ' | 'WRITE' | 'FETCH_AND_ADD';
  /** What it showed. */
  readonly words: string;
  /** Time of one operation, from post to completion, over many. */
  readonly operationUs: number;
  readonly count: number;
}

export interface Reached {
  readonly initiatorPid: number;
  readonly targetPid: number;
  readonly steps: readonly Step[];
  /** First and last look at the blocked target. */
  readonly sights: readonly Sight[];
  readonly awakening: Awakening;
}

export interface ReachOptions {
  readonly provider: string;
  readonly cpus: CpuPair;
  /** How long the target is blocked at least. */
  readonly blockMs: number;
  readonly signal: AbortSignal;
  readonly onStart: (initiatorPid: number, targetPid: number) => void;
  readonly onSight: (sight: Sight) => void;
  readonly onStep: (step: Step) => void;
}

class Initiator {
  readonly #device: Device;
  readonly #cq: CompletionQueue;
  readonly #qp: QueuePair;
  readonly #local: MemoryRegion;
  readonly #wcs = new WorkCompletions(16);
  #remote!: RemoteRegion;

  private constructor(device: Device) {
    this.#device = device;
    const pd = device.allocPd();
    this.#cq = device.createCq();
    this.#qp = pd.createQp({ type: 'RC', sendCq: this.#cq, recvCq: this.#cq });
    this.#local = pd.register(device.alloc(TARGET_BYTES), { localWrite: true });
  }

  static async open(provider: string): Promise<Initiator> {
    return new Initiator(await openDevice(provider, { name: 'demo initiator' }));
  }

  address() {
    return this.#qp.address();
  }

  async connect(target: TargetAddress): Promise<void> {
    await this.#qp.connect(target.qp);
    this.#remote = target.memory;
  }

  async #complete(request: Omit<SendWorkRequest, 'remoteAddr' | 'rkey'>, offset: number): Promise<void> {
    this.#qp.postSend({ ...request, remoteAddr: this.#remote.addr + offset, rkey: this.#remote.rkey });
    const { status, cause } = await this.#cq.next({ timeoutMs: TIMEOUT_MS });
    if (status !== 'SUCCESS') throw new Error(`${request.opcode} ended with ${status}: ${cause?.words ?? ''}`);
  }

  /** Microseconds of one operation, the median over many batches, posted in the prepared form. */
  #time(opcode: 'RDMA_READ' | 'RDMA_WRITE' | 'ATOMIC_FETCH_AND_ADD', offset: number, length: number): number {
    const request = this.#qp.prepare({ opcode, local: this.#local, remote: this.#remote });
    request.addLo = 1;
    const batches = Array.from({ length: BATCHES }, () => {
      const start = performance.now();
      for (let i = 0; i < BATCH; i++) {
        request.post(offset, length, i);
        while (this.#cq.poll(this.#wcs) === 0);
        if (this.#wcs.status[0] !== STATUS.SUCCESS) throw new Error(this.#cq.cause(this.#wcs.causeId[0])?.words);
      }
      return ((performance.now() - start) * 1000) / BATCH;
    });
    return median(batches);
  }

  async look(): Promise<Sight> {
    await this.#complete({ opcode: 'RDMA_READ', sgl: [this.#local.slice(TURNS, 24)] }, TURNS);
    const { buffer, byteOffset } = this.#local.bytes;
    const [clockMs, primes] = new Float64Array(buffer, byteOffset + CLOCK, (PRIMES - CLOCK) / 8 + 1);
    return { clockMs, primes, turns: Number(new BigInt64Array(buffer, byteOffset + TURNS, 1)[0]) };
  }

  async read(): Promise<Step> {
    await this.#complete({ opcode: 'RDMA_READ', sgl: [this.#local.slice(GREETING, TEXT_BYTES)] }, GREETING);
    const words = readText(this.#local.bytes, GREETING);
    return { name: 'READ', words, operationUs: this.#time('RDMA_READ', GREETING, TEXT_BYTES), count: BATCH * BATCHES + 1 };
  }

  async write(text: string): Promise<Step> {
    writeText(this.#local.bytes, REPLY, text);
    await this.#complete({ opcode: 'RDMA_WRITE', sgl: [this.#local.slice(REPLY, TEXT_BYTES)] }, REPLY);
    return { name: 'WRITE', words: text, operationUs: this.#time('RDMA_WRITE', REPLY, TEXT_BYTES), count: BATCH * BATCHES + 1 };
  }

  async count(): Promise<Step> {
    const operationUs = this.#time('ATOMIC_FETCH_AND_ADD', COUNTER, 8);
    const old = new BigInt64Array(this.#local.bytes.buffer, this.#local.bytes.byteOffset + COUNTER, 1)[0];
    return { name: 'FETCH_AND_ADD', words: `the last one found ${old}`, operationUs, count: BATCH * BATCHES };
  }

  /** Lets the target's loop end. */
  async release(): Promise<void> {
    this.#local.bytes[RELEASED] = 1;
    await this.#complete({ opcode: 'RDMA_WRITE', sgl: [this.#local.slice(RELEASED, 4)] }, RELEASED);
  }

  close(): void {
    this.#device.close();
  }
}

/** Waits until the target is in its loop: its clock runs. */
async function untilBlocked(initiator: Initiator): Promise<Sight> {
  const limit = performance.now() + TIMEOUT_MS;
  for (;;) {
    const sight = await initiator.look();
    if (sight.clockMs > 0) return sight;
    if (performance.now() > limit) throw new Error('the target did not begin its loop');
    await delay(5);
  }
}

/** Runs the demonstration. Throws when an operation fails, or when the target's thread was not blocked. */
export async function reach(options: ReachOptions): Promise<Reached> {
  const target = new ChildProgram(PROGRAM, { cpus: [options.cpus[0]], signal: options.signal });
  let initiator: Initiator | undefined;
  try {
    initiator = await Initiator.open(options.provider);
    const targetPid = target.pid ?? 0;
    const greeting = `a string in the memory of process ${targetPid}`;
    const address = await target.request<TargetAddress>('open', { provider: options.provider, greeting });
    await target.request('connect', initiator.address());
    await initiator.connect(address);
    options.onStart(process.pid, targetPid);

    const awake = target.request<Awakening>('block', options.blockMs);
    awake.catch(() => {});
    const sights = [await untilBlocked(initiator)];
    options.onSight(sights[0]);
    const steps: Step[] = [];
    const acts = [
      () => (initiator as Initiator).read(),
      () => (initiator as Initiator).write(`process ${process.pid} was here while you computed`),
      () => (initiator as Initiator).count(),
    ];
    for (const act of acts) {
      steps.push(await act());
      options.onStep(steps[steps.length - 1]);
    }
    sights.push(await initiator.look());
    await initiator.release();
    options.onSight(sights[1]);
    const awakening = await awake;
    if (awakening.turnsWhileBlocked !== 0) throw new Error(`the target's event loop turned ${awakening.turnsWhileBlocked} times`);
    return { initiatorPid: process.pid, targetPid, steps, sights, awakening };
  } finally {
    initiator?.close();
    await target.close();
  }
}
