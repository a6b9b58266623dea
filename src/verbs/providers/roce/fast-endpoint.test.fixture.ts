/**
 * A reliable connection for the tests of the transport, whose usual packets are carried out in C and the others by its machine, as a data path
 * does it. At some points, which a seed chooses, the machine takes a packet that C could take.
 */

import { openDoor } from '../../../native/door.js';
import type { TransportEndpoint } from '../../transport/host.js';
import type { Packet } from '../../transport/packet.js';
import { ALL_ACCESS, type End, makeRc } from '../../transport/pair.test.fixture.js';
import { RcEndpoint } from '../../transport/rc-endpoint.js';
import type { RcSettings } from '../../transport/rc-settings.js';
import { StateCopy } from '../../transport/state-copy.js';
import { ACK_TIMEOUT_NS } from '../../transport/timing.js';
import { WorkCompletions } from '../../work-completions.js';
import { Random } from '../sim/random.js';
import { AddressTable } from './address-memory.js';
import { CompletionRing } from './completion-ring.js';
import { FastPath, FastQueuePair, Sent, WORDS } from './fast-path.js';

const DOMAIN = 1;
const DEPTH = 64;
const DEADLINE = 5;
const ICRC_BYTES = 4;

export class FastEndpoint implements TransportEndpoint {
  readonly destination = 0;
  private static inC = 0;
  private static inAll = 0;
  /** By queue pair number: making one takes longer than a run. */
  private static readonly paths = new Map<number, FastPath>();
  private readonly end: End;
  private readonly machine: RcEndpoint;
  private readonly path: FastPath;
  private readonly qp: FastQueuePair;
  private readonly copy: StateCopy;
  private readonly rings: CompletionRing[];
  private readonly random: Random;
  private readonly wcs = new WorkCompletions(1);
  private readonly descriptor = new Uint32Array(WORDS);

  /** The part of all packets, in and out, that C has carried out. */
  static get share(): number {
    return FastEndpoint.inC / FastEndpoint.inAll;
  }

  constructor(end: End, settings: RcSettings, seed: number) {
    const { addon, command } = openDoor();
    this.end = end;
    this.machine = makeRc(end, settings);
    this.random = new Random(seed);
    const qpNum = 3 - settings.destQp;
    this.path = FastEndpoint.paths.get(qpNum) ?? new FastPath(addon, command, 0);
    FastEndpoint.paths.set(qpNum, this.path);
    const table = new AddressTable(addon, command.buffer as ArrayBuffer);
    table.onMove = (regions, count) => this.path.setRegions(regions, count);
    table.tellPlace();
    const { base: address, bytes, key } = end;
    table.register({
      key,
      domain: DOMAIN,
      access: ALL_ACCESS,
      address,
      length: bytes.length,
      parts: [addon.addressOf(bytes), bytes.length],
    });
    this.copy = new StateCopy(new SharedArrayBuffer(8 * RcEndpoint.stateWords(4, settings.maxDestRdAtomic)));
    this.machine.copyState(this.copy.disown());
    this.rings = [0, 1].map(() => new CompletionRing(DEPTH, new SharedArrayBuffer(CompletionRing.byteLength(DEPTH))));
    const { destQp, mtu, access, timeout, retryCount, rnrRetry } = settings;
    this.qp = new FastQueuePair(addon, qpNum, [
      ...[
        this.copy.words,
        0,
        qpNum,
        destQp,
        0,
        DOMAIN,
        mtu,
        access,
        ACK_TIMEOUT_NS[timeout],
        retryCount,
        rnrRetry,
        0xffff,
        0,
        0,
        0,
      ],
      ...[...end.sendQueue.layout, ...end.receiveQueue.layout, ...this.rings[0].layout, ...this.rings[1].layout],
    ]);
    this.path.add(this.qp);
  }

  get deadline(): number {
    return this.copy.words[DEADLINE];
  }

  /** Runs the machine on the values in shared memory. */
  private byMachine<T>(act: (machine: RcEndpoint) => T): T {
    if (this.copy.own()) this.machine.copyState(this.copy);
    try {
      return act(this.machine);
    } finally {
      this.machine.copyState(this.copy.disown());
    }
  }

  /** Whether C may try. */
  private mayBeFast(): boolean {
    return this.random.below(8) > 0;
  }

  /** Tells the end what C has completed. */
  private tell(): void {
    const { wcs, end, rings } = this;
    while (rings[0].take(wcs, 0) >= 0) end.sendComplete(wcs.id[0], wcs.status[0], wcs.opcode[0], wcs.byteLen[0]);
    while (rings[1].take(wcs, 0) >= 0) {
      end.receiveComplete(wcs.id[0], wcs.status[0], wcs.opcode[0], wcs.byteLen[0], wcs.imm[0], wcs.flags[0], 0, false);
    }
  }

  receive(p: Packet, b: Uint8Array, now: number): void {
    FastEndpoint.inAll++;
    this.descriptor[0] = b.length;
    this.descriptor[2] = new DataView(b.buffer, b.byteOffset).getUint32(b.length - ICRC_BYTES, true);
    const isDone = this.mayBeFast() && this.path.inject(b, this.descriptor, now) === 1;
    this.tell();
    if (isDone) FastEndpoint.inC++;
    else this.byMachine((machine) => machine.receive(p, b, now));
  }

  next(b: Uint8Array, at: number, now: number): number {
    if (this.mayBeFast()) {
      this.path.nowNs = now;
      const sent = this.path.send(this.qp, 1, 0, false);
      if (sent !== Sent.unknown) {
        if (this.path.batched === 0) return 0;
        const length = this.path.txWords[0];
        FastEndpoint.inAll++;
        FastEndpoint.inC++;
        b.set(this.path.tx.subarray(0, length), at);
        return length;
      }
    }
    const length = this.byMachine((machine) => machine.next(b, at, now));
    if (length > 0) FastEndpoint.inAll++;
    return length;
  }

  tick(now: number): void {
    this.byMachine((machine) => machine.tick(now));
  }

  flush(): void {
    this.byMachine((machine) => machine.flush());
  }
}
