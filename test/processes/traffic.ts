/** Random traffic over one queue pair, driven step by step without ever waiting. */

import type { Completion, ConnectAttributes, QpInit, RemoteRegion } from '../../src/verbs/index.js';
import { WorkCompletions } from '../../src/verbs/work-completions.js';
import type { Link } from './link.js';
import { Random } from './random.js';

const SIZES = [0, 1, 8, 64, 300, 4096, 70_000, 1_500_000];
const RECEIVES = 32;
const RECEIVE_SIZE = 4096;
const WINDOW = 8;

export class Traffic {
  /** Receive buffers first, then the words of atomics, then data; the second half is what the peer writes to. */
  static readonly MEMORY = 4 << 20;
  static readonly INIT: Partial<QpInit> = { maxSendWr: 16, maxRecvWr: RECEIVES };
  static readonly ATTRIBUTES: ConnectAttributes = { rnrRetry: 7, timeout: 12, retryCnt: 3 };

  readonly #link: Link;
  readonly #remote: RemoteRegion;
  readonly #random: Random;
  readonly #wcs = new WorkCompletions(16);
  #outstanding = 0;
  /** Successful completions of sends so far. */
  completed = 0;

  constructor(link: Link, remote: RemoteRegion, seed: number) {
    this.#link = link;
    this.#remote = remote;
    this.#random = new Random(seed);
  }

  start(): void {
    for (let slot = 0; slot < RECEIVES; slot++) this.#postRecv(slot);
  }

  #postRecv(slot: number): void {
    this.#link.qp.postRecv({ sgl: [this.#link.region.slice(slot * RECEIVE_SIZE, RECEIVE_SIZE)], id: slot });
  }

  /** Posts what the window allows and polls once. Returns the first error completion, or undefined. */
  step(): Completion | undefined {
    const { qp, cq } = this.#link;
    while (this.#outstanding < WINDOW && qp.state === 'RTS') this.#post();
    const n = cq.poll(this.#wcs);
    let failed: Completion | undefined;
    for (let i = 0; i < n; i++) {
      const completion = this.#wcs.at(i);
      const received = completion.opcode === 'RECV' || completion.opcode === 'RECV_RDMA_WITH_IMM';
      if (completion.status !== 'SUCCESS') failed ??= { ...completion, cause: cq.cause(this.#wcs.causeId[i]) };
      else if (received) this.#postRecv(completion.id);
      if (!received) {
        this.#outstanding--;
        if (completion.status === 'SUCCESS') this.completed++;
      }
    }
    return failed;
  }

  #post(): void {
    const random = this.#random;
    const half = Traffic.MEMORY / 2;
    const size = random.pick(SIZES);
    const here = RECEIVES * RECEIVE_SIZE + random.between(0, 1000) * 8;
    const there = half + random.between(0, 1000) * 8;
    const remote = { remoteAddr: this.#remote.addr + there, rkey: this.#remote.rkey };
    const { qp, region } = this.#link;
    switch (random.between(0, 5)) {
      case 0:
        qp.postSend({ opcode: 'SEND', sgl: [region.slice(here, Math.min(size, RECEIVE_SIZE))] });
        break;
      case 1:
        qp.postSend({ opcode: 'RDMA_WRITE', sgl: [region.slice(here, size)], ...remote });
        break;
      case 2:
        qp.postSend({ opcode: 'RDMA_WRITE_WITH_IMM', sgl: [region.slice(here, size)], ...remote, imm: size });
        break;
      case 3:
        qp.postSend({ opcode: 'RDMA_READ', sgl: [region.slice(here, size)], ...remote });
        break;
      case 4:
        qp.postSend({ opcode: 'ATOMIC_FETCH_AND_ADD', sgl: [region.slice(here, 8)], ...remote, add: 1n });
        break;
      default:
        qp.postSend({ opcode: 'ATOMIC_CMP_AND_SWP', sgl: [region.slice(here, 8)], ...remote, compare: 0n, swap: 1n });
    }
    this.#outstanding++;
  }
}
