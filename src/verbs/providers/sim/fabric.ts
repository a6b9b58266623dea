/**
 * A simulated fabric: devices of one process, the links between them, one clock, and a plan of what goes wrong.
 *
 *     device A ── packet ──> fault plan ──> links ──> event queue ──(time)──> device B
 *                 (lost, copied, delayed, corrupted)     timers of queue pairs and waits ──┘
 *
 * Two clocks. **Virtual** time (`clock: 'virtual'`) moves only when told: `advance`, `run`, `settle`; waits cost no real time, and the same
 * seed and program give the same `traceHash`, on every machine. **Real** time lets the fabric serve programs that know nothing of it: events
 * happen when their time has come, whenever somebody polls or waits.
 *
 * A corrupted packet gets its ICRC first and is checked at arrival. Others skip both, because the check of an untouched packet cannot fail.
 */

import type { DeviceOptions } from '../../device.js';
import { VerbsError } from '../../errors.js';
import { IcrcPath, IcrcVerdict } from '../../transport/icrc.js';
import { SimDevice } from './device.js';
import { decideFate, Fate, type FaultPlan, planFault } from './fault-plan.js';
import { type Frame, FramePool, type Happening } from './frame.js';
import { DROPPED, type LinkSpec, Network, type NetworkSpec } from './network.js';
import { Random } from './random.js';
import { TimeWheel } from './time-wheel.js';

/** What a fabric is made from. */
export interface FabricOptions {
  /** Default 'real'. */
  readonly clock?: 'real' | 'virtual';
  /** Path MTU of all devices, bytes: 256, 512, 1024, 2048 or 4096. Default 4096. */
  readonly mtu?: number;
  /** Links of the star that devices are joined by where no `network` is given. Default 100 Gb/s, 500 ns, no limit. */
  readonly link?: LinkSpec;
  /** Links and switches. Default: a star of `link`s. */
  readonly network?: NetworkSpec;
  /** What goes wrong. Default: nothing. Its seed also starts PSNs and ids. */
  readonly faults?: FaultPlan;
  /** Real time in milliseconds, for `clock: 'real'`. Default: performance.now. */
  readonly nowMs?: () => number;
}

const KNOWN = new Set(['clock', 'mtu', 'link', 'network', 'faults', 'nowMs']);
const NO_FAULTS: FaultPlan = { seed: 1, rules: [] };
/** Bytes that Ethernet, IP and UDP add to a packet on the wire. */
const WIRE_BYTES = 14 + 40 + 8 + 4 + 4 + 20;

/** Room for the headers and the ICRC of a packet. */
const HEADER_ROOM = 128;
/** Small packets are most of them, and get small frames where the large ones are much larger. */
const SMALL_FRAME = 320;

/** Words of a packet that the trace hash covers: BTH and what follows it. */
const HASHED_WORDS = 7;

/** Totals of a fabric. */
export interface FabricCounters {
  readonly packets: number;
  readonly bytes: number;
  /** Lost to the plan, and to full queues. */
  readonly lost: number;
  readonly queueDrops: number;
  readonly corruptCaught: number;
  /** Corrupted packets that the ICRC let pass. */
  readonly corruptPassed: number;
  /** Events that have happened. */
  readonly events: number;
}

/** Simulated devices and the links between them, on one clock. */
export class SimFabric {
  readonly isVirtual: boolean;
  readonly mtu: number;
  readonly faults: FaultPlan;
  readonly random: Random;
  readonly devices: SimDevice[] = [];
  /** Listeners by name: who, and under which service id. */
  readonly names = new Map<string, { device: SimDevice; serviceId: bigint }>();
  /** Members of multicast groups, by number of the group. */
  readonly groups: { readonly gid: string; readonly members: Map<SimDevice, number> }[] = [];
  private readonly byGid = new Map<string, SimDevice>();
  private readonly network: Network;
  private readonly events = new TimeWheel<Happening>();
  private readonly large: FramePool;
  private readonly small: FramePool;
  /** Where the next packet is written, before it is known how long it is. */
  spare: Frame;
  private readonly fate = new Fate();
  private readonly nowMs: () => number;
  private readonly startMs: number;
  private clockNs = 0;
  private packets = 0;
  private bytes = 0;
  private lost = 0;
  private queueDrops = 0;
  private corruptCaught = 0;
  private corruptPassed = 0;
  private happened = 0;
  private hashLow = 0x811c9dc5;
  private hashHigh = 0x01234567;
  private nextService = 0x1000n;
  private wake: NodeJS.Timeout | NodeJS.Immediate | undefined;
  private wakeAt = Number.POSITIVE_INFINITY;
  private waiters = 0;
  private isStepping = false;

  /** Throws VERBS_INVALID for options that are none. */
  constructor(options: FabricOptions = {}) {
    for (const name of Object.keys(options)) {
      if (!KNOWN.has(name)) {
        throw new VerbsError('VERBS_INVALID', `a fabric has no option '${name}': it has ${[...KNOWN].join(', ')}`);
      }
    }
    const { clock = 'real', mtu = 4096, link = {}, network, faults = NO_FAULTS } = options;
    if (clock !== 'real' && clock !== 'virtual') throw new VerbsError('VERBS_INVALID', "clock must be 'real' or 'virtual'");
    if (![256, 512, 1024, 2048, 4096].includes(mtu)) {
      throw new VerbsError('VERBS_INVALID', `mtu must be 256, 512, 1024, 2048 or 4096 bytes: got ${String(mtu)}`);
    }
    const fault = planFault(faults);
    if (fault) throw new VerbsError('VERBS_INVALID', `fault plan: ${fault}`);
    this.isVirtual = clock === 'virtual';
    this.mtu = mtu;
    this.faults = faults;
    this.random = new Random(faults.seed);
    this.network = new Network(network, link);
    const arrived = (frame: Frame): void => this.arrive(frame);
    this.large = new FramePool(mtu + HEADER_ROOM, arrived);
    this.small = mtu + HEADER_ROOM > 2 * SMALL_FRAME ? new FramePool(SMALL_FRAME, arrived) : this.large;
    this.spare = this.large.take();
    this.nowMs = options.nowMs ?? (() => performance.now());
    this.startMs = this.nowMs();
    for (const rule of faults.rules) if (rule.kind === 'kill' && rule.atNs !== undefined) this.killAt(rule.device, rule.atNs);
  }

  /** Nanoseconds since the fabric was made. */
  get nowNs(): number {
    if (!this.isVirtual && !this.isStepping) {
      this.clockNs = Math.max(this.clockNs, Math.floor((this.nowMs() - this.startMs) * 1e6));
    }
    return this.clockNs;
  }

  /** Two runs with the same hash delivered the same packets at the same times. */
  get traceHash(): string {
    return (this.hashHigh >>> 0).toString(16).padStart(8, '0') + (this.hashLow >>> 0).toString(16).padStart(8, '0');
  }

  counters(): FabricCounters {
    const { packets, bytes, lost, queueDrops, corruptCaught, corruptPassed, happened } = this;
    return { packets, bytes, lost, queueDrops, corruptCaught, corruptPassed, events: happened };
  }

  /** Adds a device. Throws VERBS_INVALID for options it does not know. */
  open(options: DeviceOptions = {}): SimDevice {
    for (const name of Object.keys(options)) {
      if (name !== 'name') throw new VerbsError('VERBS_INVALID', `the sim provider has no option '${name}': it has name`);
    }
    const device = new SimDevice(this, this.devices.length, options.name);
    this.devices.push(device);
    this.byGid.set(device.gid, device);
    return device;
  }

  /** The device of a GID, also a closed one; undefined for a GID that was never given. */
  deviceOf(gid: string): SimDevice | undefined {
    return this.byGid.get(gid);
  }

  newServiceId(): bigint {
    this.nextService += 1n;
    return this.nextService;
  }

  /** Number of a multicast group, in its normal form. */
  groupOf(gid: string): number {
    const known = this.groups.findIndex((group) => group.gid === gid);
    if (known >= 0) return known;
    this.groups.push({ gid, members: new Map() });
    return this.groups.length - 1;
  }

  /** Calls at a time, nanoseconds. Returns what takes the call back. */
  at(timeNs: number, act: () => void): () => void {
    let isOff = false;
    this.schedule(timeNs, {
      happen: () => {
        if (!isOff) act();
      },
    });
    return () => {
      isOff = true;
    };
  }

  schedule(timeNs: number, happening: Happening): void {
    this.events.push(timeNs, happening);
    if (this.waiters > 0) this.arm();
  }

  /** Sends what stands in the spare frame. */
  send(from: SimDevice, to: number): void {
    let frame = this.spare;
    if (this.small !== this.large && frame.length + 4 <= SMALL_FRAME) frame = this.small.copy(frame);
    else this.spare = this.large.take();
    frame.to = to;
    this.transmit(frame, from);
  }

  /** Sends what stands in the spare frame to every member of a group. */
  sendToGroup(from: SimDevice, group: number): void {
    for (const member of this.groups[group].members.keys()) {
      const frame = this.copyOf(this.spare);
      frame.to = member.index;
      frame.group = group;
      this.transmit(frame, from);
    }
  }

  private copyOf(frame: Frame): Frame {
    return (frame.length + 4 <= SMALL_FRAME ? this.small : this.large).copy(frame);
  }

  /** Puts a frame on its way. `frame.length` counts BTH to padding. */
  private transmit(frame: Frame, from: SimDevice): void {
    this.packets++;
    this.bytes += frame.length;
    from.sentPackets++;
    from.sentBytes += frame.length;
    frame.from = from.index;
    const { fate } = this;
    if (this.faults.rules.length > 0) {
      this.killBySending(from);
      decideFate(this.faults, this.random, from.index, frame.to, this.clockNs, this.packets, fate);
    }
    if (fate.isLost || from.isDead) {
      this.lost++;
      frame.give();
      return;
    }
    if (fate.isCorrupt) this.corrupt(frame);
    for (let i = 1; i < fate.copies; i++) this.launch(this.copyOf(frame), 0);
    this.launch(frame, fate.delayNs);
  }

  private launch(frame: Frame, delayNs: number): void {
    frame.hop = 0;
    frame.delayNs = delayNs;
    this.forward(frame);
  }

  /** Over the next link. */
  private forward(frame: Frame): void {
    const at = this.network.pass(frame.from, frame.to, frame.hop, frame.length + WIRE_BYTES, this.clockNs);
    if (at === DROPPED) {
      this.queueDrops++;
      frame.give();
      return;
    }
    if (this.network.isMarked) frame.isMarked = true;
    frame.hop++;
    this.schedule(frame.hop === 1 ? at + frame.delayNs : at, frame);
  }

  /** Seals the packet and flips one bit of it. */
  private corrupt(frame: Frame): void {
    const { bytes, at, length } = frame;
    this.pathOf(frame).seal(bytes, at, at + length);
    bytes[at + this.random.below(length + 4)] ^= 1 << this.random.below(8);
    frame.isCorrupt = true;
  }

  private pathOf(frame: Frame): IcrcPath {
    return new IcrcPath(this.devices[frame.from].gidBytes, this.devices[frame.to].gidBytes, 0xc000, 4791);
  }

  private arrive(frame: Frame): void {
    if (frame.hop < this.network.hops(frame.from, frame.to)) {
      this.forward(frame);
      return;
    }
    this.note(frame);
    const device = this.devices[frame.to];
    let isGood = !device.isDead;
    if (frame.isCorrupt) {
      isGood = this.pathOf(frame).check(frame.bytes, frame.at, frame.at + frame.length) !== IcrcVerdict.bad;
      if (isGood) this.corruptPassed++;
      else this.corruptCaught++;
    }
    if (isGood) device.receive(frame);
    frame.give();
  }

  /** Mixes a delivery into the trace hash: time, ends, length and headers. */
  private note(frame: Frame): void {
    let low = this.hashLow ^ (this.clockNs & 0xffffffff);
    low = Math.imul(low, 0x01000193) ^ frame.from;
    low = Math.imul(low, 0x01000193) ^ frame.to;
    low = Math.imul(low, 0x01000193) ^ frame.length;
    const { words } = frame;
    const first = frame.at >> 2;
    const end = first + Math.min(HASHED_WORDS, frame.length >> 2);
    for (let i = first; i < end; i++) low = Math.imul(low, 0x01000193) ^ words[i];
    this.hashHigh = Math.imul(this.hashHigh ^ low ^ Math.floor(this.clockNs / 0x100000000), 0x85ebca6b);
    this.hashHigh ^= this.hashHigh >>> 15;
    this.hashLow = low;
  }

  private killAt(index: number, timeNs: number): void {
    this.at(timeNs, () => this.kill(index));
  }

  private killBySending(from: SimDevice): void {
    for (const rule of this.faults.rules) {
      if (rule.kind !== 'kill' || rule.device !== from.index) continue;
      if (from.sentPackets > (rule.afterPackets ?? Number.POSITIVE_INFINITY)) this.kill(from.index);
      else if (from.sentBytes > (rule.afterBytes ?? Number.POSITIVE_INFINITY)) this.kill(from.index);
    }
  }

  /** A device dies: it neither sends nor takes anything any more, and says so with DEVICE_FATAL. */
  kill(index: number): void {
    this.devices[index]?.die();
  }

  /** The next event happens, and time moves to it. False when there is none. */
  step(): boolean {
    if (this.events.size === 0) return false;
    const wasStepping = this.isStepping;
    this.isStepping = true;
    this.clockNs = Math.max(this.clockNs, this.events.nextTime);
    const happening = this.events.pop();
    this.happened++;
    try {
      happening.happen();
    } finally {
      this.isStepping = wasStepping;
    }
    return true;
  }

  /** Virtual time: everything of the next `ns` nanoseconds happens. */
  advance(ns: number): void {
    const end = this.clockNs + ns;
    while (this.events.nextTime <= end) this.step();
    this.clockNs = end;
  }

  /** Virtual time: events happen until there is none, or `isDone`. Throws VERBS_TIMEOUT after `limit` events (default 10 million): a hang. */
  run(isDone: () => boolean = () => false, limit = 10_000_000): void {
    for (let n = 0; !isDone() && this.step(); n++) {
      if (n >= limit) throw new VerbsError('VERBS_TIMEOUT', `${limit} events and not done: seed ${this.faults.seed}`);
    }
  }

  /**
   * Virtual time: runs until a promise is settled, and gives its value. Time moves only when the program has nothing to do: between two
   * events everything that is ready to run runs first. Throws VERBS_TIMEOUT when nothing is left to happen.
   */
  async settle<T>(promise: Promise<T>): Promise<T> {
    let isSettled = false;
    const mark = (): void => {
      isSettled = true;
    };
    promise.then(mark, mark);
    for (let idle = 0; !isSettled; ) {
      await new Promise<void>((resolve) => setImmediate(resolve));
      if (isSettled) break;
      idle = this.step() ? 0 : idle + 1;
      if (idle > 100) throw new VerbsError('VERBS_TIMEOUT', `nothing is left to happen: seed ${this.faults.seed}`);
    }
    return promise;
  }

  /** Real time: what is due happens. Called by every poll. */
  progress(): void {
    if (this.isVirtual || this.isStepping || this.events.size === 0) return;
    const now = this.nowNs;
    for (let n = 0; n < 10_000 && this.events.nextTime <= now; n++) this.step();
  }

  /** Real time: somebody waits in the event loop, or no longer. */
  hold(isOn: boolean): void {
    this.waiters += isOn ? 1 : -1;
    if (this.waiters > 0) this.arm();
    else this.disarm();
  }

  private arm(): void {
    if (this.isVirtual || this.events.size === 0) return;
    const at = this.events.nextTime;
    if (this.wake !== undefined && this.wakeAt <= at) return;
    this.disarm();
    this.wakeAt = at;
    const delayMs = (at - this.nowNs) / 1e6;
    const act = (): void => {
      this.wake = undefined;
      this.wakeAt = Number.POSITIVE_INFINITY;
      this.progress();
      if (this.waiters > 0) this.arm();
    };
    this.wake = delayMs < 1 ? setImmediate(act) : setTimeout(act, delayMs);
  }

  private disarm(): void {
    if (this.wake === undefined) return;
    clearTimeout(this.wake as NodeJS.Timeout);
    clearImmediate(this.wake as NodeJS.Immediate);
    this.wake = undefined;
    this.wakeAt = Number.POSITIVE_INFINITY;
  }
}
