/** The queue pair of an RDMA device: requests as commands of the device's block, states as the device has them. */

import { constants } from 'node:os';
import type { AsyncEventType } from '../../device.js';
import { VerbsError } from '../../errors.js';
import { addressOfGid, gidText } from '../../ip-address.js';
import type { MemoryRegion } from '../../memory-region.js';
import { QP_TYPES } from '../../opcode.js';
import { type AddressVector, PATH_MTUS, QP_STATES, type QpAttributes, type QpState } from '../../qp-state.js';
import { type ConnectAttributes, type QpInit, QueuePair } from '../../queue-pair.js';
import { type Cause, STATUS, statusName } from '../../status.js';
import { systemError } from '../../system-error.js';
import { QueuedReceive } from '../../transport/receive-poster.js';
import {
  type PreparedRecv,
  type PreparedSend,
  type PrepareSpec,
  type RecvWorkRequest,
  rejectRequest,
  type SendWorkRequest,
  sendFault,
} from '../../work-request.js';
import { assertTakesReceives, assertTakesSends } from '../posting.js';
import { IbverbsAddressHandle } from './address-handle.js';
import { checkGroupLid, GID, gidOf } from './address-words.js';
import { COMMAND_RECV, type CommandBlock, SEND_WORDS, SGE_WORDS } from './command-block.js';
import type { IbverbsCompletionQueue } from './completion-queue.js';
import type { IbverbsDevice } from './device.js';
import { isInfiniBand, isIwarp } from './discovery.js';
import { IbverbsPreparedSend } from './prepared-send.js';
import type { IbverbsProtectionDomain } from './protection-domain.js';
import { ReceiveCommands } from './receive-commands.js';
import { refuseRequest } from './refused-request.js';
import { writeSend } from './send-command.js';
import type { IbverbsSharedReceiveQueue } from './shared-receive-queue.js';

const { EOPNOTSUPP, EINVAL, EIO, ENODEV, ETIMEDOUT, ENETUNREACH, EHOSTUNREACH } = constants.errno;
const FLUSHED = statusName(STATUS.WR_FLUSH_ERR);
/** Events after which a queue pair is in ERR. */
const FATAL: ReadonlySet<AsyncEventType> = new Set(['QP_FATAL', 'QP_REQ_ERR', 'QP_ACCESS_ERR', 'DEVICE_FATAL']);
/** On RoCE the kernel looks for the way to a peer when the queue pair is told of it: what it says where there is none. */
const UNREACHABLE: Readonly<Record<number, string>> = {
  [ETIMEDOUT]: 'nobody answers for that address: is the peer up, and on the network that this GID belongs to?',
  [ENETUNREACH]: "there is no route: look at 'ip route', or choose another GID ('?gid=3')",
  [EHOSTUNREACH]: "there is no route: look at 'ip route', or choose another GID ('?gid=3')",
};

/** mlx5 takes nothing else on a DCT's way to RTR; how many READs it answers is the device's matter. */
const targetAttributes = ({ pathMtu, minRnrTimer }: QpAttributes): QpAttributes => ({ pathMtu, minRnrTimer });

/** Bits of ibv_modify_qp's mask and the argument word of each attribute. */
const ATTRIBUTES: Readonly<Partial<Record<keyof QpAttributes, readonly [bit: number, word: number]>>> = {
  enSqdAsyncNotify: [1 << 2, 17],
  accessFlags: [1 << 3, 4],
  pkeyIndex: [1 << 4, 2],
  port: [1 << 5, 3],
  qkey: [1 << 6, 5],
  timeout: [1 << 9, 13],
  retryCnt: [1 << 10, 14],
  rnrRetry: [1 << 11, 15],
  rqPsn: [1 << 12, 8],
  maxRdAtomic: [1 << 13, 10],
  minRnrTimer: [1 << 15, 12],
  sqPsn: [1 << 16, 9],
  maxDestRdAtomic: [1 << 17, 11],
  destQpNum: [1 << 20, 7],
};
const CUR_STATE = 1 << 1;
const AV = 1 << 7;
const PATH_MTU = 1 << 8;
const MASK_WORD = 0;
const STATE_WORD = 1;
const MTU_WORD = 6;
const CUR_STATE_WORD = 16;
const LID_WORD = 19;

export class IbverbsQueuePair extends QueuePair {
  readonly device: IbverbsDevice;
  readonly pd: IbverbsProtectionDomain;
  /** Of a DCT: 0 before RTR, where the device gives it one. */
  qpNum: number;
  readonly object: number;
  /** What failed first since the last RESET: a flush names it. */
  firstFailure: Cause | undefined;
  private readonly block: CommandBlock;
  private readonly shared: IbverbsSharedReceiveQueue | undefined;
  private readonly receives: ReceiveCommands;
  protected override psn = Math.floor(Math.random() * 0x1000000);
  /** The SQ_DRAINED event was asked for; some devices raise it always. */
  private wantsDrained = false;
  /** Multicast groups that it is a member of, with the LID of each: the kernel destroys no queue pair that is in one. */
  private readonly groups = new Map<string, number>();
  private isClosed = false;

  constructor(pd: IbverbsProtectionDomain, init: QpInit) {
    const { device } = pd;
    const { capabilities } = device;
    super({
      ...init,
      maxInline: init.maxInline ?? Math.min(256, capabilities.maxInline),
      maxSendSge: init.maxSendSge ?? Math.min(4, capabilities.maxSge),
      maxRecvSge: init.maxRecvSge ?? Math.min(3, capabilities.maxSge),
    });
    if (!capabilities.qpTypes.includes(init.type)) {
      throw new VerbsError('VERBS_UNSUPPORTED', `${device.choice.device.name} has no ${String(init.type)} queue pairs`);
    }
    this.checkLimits();
    this.pd = pd;
    this.device = device;
    this.block = device.block;
    this.shared = init.srq as IbverbsSharedReceiveQueue | undefined;
    const [sendCq, recvCq] = this.cqs;
    const a = device.block.arguments;
    a[0] = pd.object;
    a[1] = sendCq.object;
    a[2] = recvCq.object;
    a[3] = this.shared?.object ?? 0;
    a[4] = QP_TYPES.indexOf(init.type);
    a[5] = this.maxSendWr;
    a[6] = this.maxRecvWr;
    a[7] = this.maxSendSge;
    a[8] = this.maxRecvSge;
    a[9] = this.maxInline;
    a[10] = this.sqSigAll ? 1 : 0;
    a[11] = this.dcKey;
    const made = device.addon.createQp(device.handle);
    if (typeof made === 'number') {
      if (made === -EOPNOTSUPP)
        throw new VerbsError('VERBS_UNSUPPORTED', `${device.choice.device.name} makes no ${init.type} queue pairs`);
      if (made === -EINVAL) {
        throw new VerbsError(
          'VERBS_INVALID',
          `${device.choice.device.name} refuses a queue pair of ${this.maxSendWr} sends with ${this.maxSendSge} elements and ${this.maxInline} bytes inline: ask for less`,
        );
      }
      throw systemError(made, 'no queue pair', 'VERBS_NO_MEMORY');
    }
    [this.object, this.qpNum] = made;
    this.receives = new ReceiveCommands(this.block, COMMAND_RECV, this.object, this.maxRecvWr, this.maxRecvSge);
    if (this.shared) recvCq.hasShared = true;
    pd.adopt(this);
    device.adoptQueuePair(this);
  }

  private checkLimits(): void {
    const { maxQpWr, maxSge, maxInline } = this.deviceOf().capabilities;
    for (const [name, value, most] of [
      ['maxSendWr', this.maxSendWr, maxQpWr],
      ['maxRecvWr', this.maxRecvWr, maxQpWr],
      ['maxSendSge', this.maxSendSge, maxSge],
      ['maxRecvSge', this.maxRecvSge, maxSge],
      ['maxInline', this.maxInline, maxInline],
    ] as const) {
      if (value > most) throw new VerbsError('VERBS_INVALID', `${name} of this device is at most ${most}: got ${value}`);
    }
  }

  private deviceOf(): IbverbsDevice {
    return (this.sendCq as IbverbsCompletionQueue).device;
  }

  private get cqs(): [IbverbsCompletionQueue, IbverbsCompletionQueue] {
    return [this.sendCq as IbverbsCompletionQueue, this.recvCq as IbverbsCompletionQueue];
  }

  /** Who is at the other end, in words. */
  get peerName(): string {
    const { av, destQpNum } = this.attributes;
    if (av === undefined) return 'unknown';
    return `${av.gid}${av.lid === undefined ? '' : ` (LID ${av.lid})`}, QP ${destQpNum}`;
  }

  /** The peer's queue pair, 0 when there is none. */
  get destination(): number {
    return this.attributes.destQpNum ?? 0;
  }

  protected override get home(): { pkeyIndex: number; port: number } {
    const { pkeyIndex, port } = this.device.choice;
    return { pkeyIndex, port: port.number };
  }

  protected override speaksWith(provider: string): boolean {
    return provider === 'ibverbs' || provider === 'roce';
  }

  // ---- states ----

  override get state(): QpState {
    if (this.isClosed || this.device.isClosed || this.type === 'DCT' || isIwarp(this.device.choice.device)) return super.state;
    const code = this.device.addon.query(this.device.handle, this.object);
    if (code >= 0 && QP_STATES[code] !== super.state) this.enter(QP_STATES[code]);
    return super.state;
  }

  override modify(state: QpState, attributes: QpAttributes = {}): void {
    this.assertOpen();
    void this.state;
    super.modify(state, attributes);
  }

  protected transition(from: QpState, to: QpState, changed: QpAttributes): void {
    const { device } = this;
    const { mtu } = device.capabilities;
    if (changed.pathMtu !== undefined && changed.pathMtu > mtu) {
      throw new VerbsError('VERBS_INVALID', `pathMtu ${changed.pathMtu} is more than the ${mtu} bytes that the port carries`);
    }
    this.writeAttributes(this.type === 'DCT' && to === 'RTR' ? targetAttributes(changed) : changed);
    const a = this.block.arguments;
    a[STATE_WORD] = QP_STATES.indexOf(to);
    if (changed.curState !== undefined) {
      a[MASK_WORD] |= CUR_STATE;
      a[CUR_STATE_WORD] = QP_STATES.indexOf(changed.curState);
    }
    if (changed.av) {
      device.writeAddress(changed.av);
      a[MASK_WORD] |= AV;
    } else if (to === 'RTR' && (this.type === 'DCI' || this.type === 'DCT')) {
      device.writeAddress(device.av); // DC takes the way out of its own port from an address vector
      a[MASK_WORD] |= AV;
    }
    const errno = device.addon.modify(device.handle, this.object);
    if (errno !== 0) throw this.immovable(errno, from, to, changed.av);
    if (this.type === 'DCT' && to === 'RTR') device.renumber(this);
    if (to === 'RESET') this.firstFailure = undefined;
    if (to === 'SQD') this.wantsDrained = changed.enSqdAsyncNotify === true;
  }

  /** Why the device does not take a state. */
  private immovable(errno: number, from: QpState, to: QpState, av: AddressVector | undefined): VerbsError {
    const { name } = this.device.choice.device;
    const way = av && UNREACHABLE[errno];
    if (way !== undefined) return systemError(errno, `no way from ${this.device.gid} to ${av?.gid}: ${way}`, 'VERBS_NO_DEVICE');
    const refusal = `${name} refuses to move the queue pair from ${from} to ${to}`;
    if (errno === EIO || errno === ENODEV) {
      return systemError(errno, `${refusal}: it failed or was taken out; close it and open it again`, 'VERBS_NO_DEVICE');
    }
    if (errno !== EINVAL) return systemError(errno, refusal);
    const hint = av
      ? `: is ${av.gid} of the same kind as this port's ${this.device.gid}, and does the path MTU fit both ports?`
      : '';
    return systemError(errno, refusal + hint, 'VERBS_INVALID');
  }

  /** Puts attributes and their mask into the arguments. */
  private writeAttributes(attributes: QpAttributes): void {
    const a = this.block.arguments;
    let mask = 0;
    for (const [name, value] of Object.entries(attributes)) {
      const place = ATTRIBUTES[name as keyof QpAttributes];
      if (place === undefined || value === undefined) continue;
      mask |= place[0];
      a[place[1]] = Number(value);
    }
    if (attributes.maxRdAtomic !== undefined) a[10] = Math.min(attributes.maxRdAtomic, this.device.maxReads);
    if (attributes.maxDestRdAtomic !== undefined) a[11] = Math.min(attributes.maxDestRdAtomic, this.device.maxTargetReads);
    if (attributes.pathMtu !== undefined) {
      mask |= PATH_MTU;
      a[MTU_WORD] = PATH_MTUS.indexOf(attributes.pathMtu) + 1;
    }
    a[MASK_WORD] = mask;
  }

  /** Moves along a connection of rdma-cm, which knows most attributes; `wanted` are those that the caller gave. */
  moveManaged(id: number, to: 'INIT' | 'RTR' | 'RTS', wanted: ConnectAttributes): void {
    const { device } = this;
    const { qkey, ...rest } = wanted;
    this.writeAttributes({ accessFlags: 2 | 4 | 8, ...rest });
    const errno = device.addon.cmModify(device.handle, id, this.object, QP_STATES.indexOf(to));
    if (errno !== 0) throw systemError(errno, `the queue pair cannot go to ${to}`);
    this.enter(to);
    if (to !== 'RTS') return;
    device.addon.query(device.handle, this.object);
    const a = this.block.arguments;
    const bytes = this.block.argumentBytes.slice(GID * 4, GID * 4 + 16);
    Object.assign(this.attributes, {
      destQpNum: a[7],
      timeout: a[13],
      retryCnt: a[14],
      rnrRetry: a[15],
      minRnrTimer: a[12],
      av: { gid: gidText(addressOfGid(bytes)), ...(a[LID_WORD] > 0 && { lid: a[LID_WORD] }) } satisfies AddressVector,
    });
  }

  /** The kernel has connected the queue pair (iWARP). */
  becomeReady(): void {
    this.enter('RTS');
  }

  /** An async event says something about the state. False: nobody asked for it. */
  raised(type: AsyncEventType): boolean {
    if (FATAL.has(type)) this.enter('ERR');
    return type !== 'SQ_DRAINED' || this.wantsDrained;
  }

  /** A completion says that a request failed: the state follows. */
  noteFailure(cause: Cause, isReceive: boolean): void {
    if (cause.status !== FLUSHED) this.firstFailure ??= cause;
    const isUnreliable = this.type === 'UC' || this.type === 'UD';
    if (!isUnreliable || isReceive) this.enter('ERR');
    else void this.state;
  }

  /** To the error state from outside: a connection ended. */
  stop(): void {
    if (this.isClosed || this.device.isClosed || super.state === 'ERR' || super.state === 'RESET') return;
    this.modify('ERR');
  }

  // ---- requests ----

  postSend(wr: SendWorkRequest | readonly SendWorkRequest[]): void {
    this.assertOpen();
    const chain = Array.isArray(wr) ? (wr as readonly SendWorkRequest[]) : [wr as SendWorkRequest];
    const { block } = this;
    let first = 0;
    let i = 0;
    let fault: string | undefined;
    try {
      for (; i < chain.length; i++) {
        this.assertSends(i);
        fault = sendFault(this.type, chain[i], this) ?? this.datagramFault(chain[i]);
        if (fault !== undefined) break;
        const bytes = 4 * (SEND_WORDS + (chain[i].sgl?.length ?? 0) * SGE_WORDS) + this.maxInline + 16;
        if (!block.hasRoom(bytes)) {
          this.flush(first);
          first = i;
        }
        writeSend(block, this, chain[i]);
      }
    } catch (error) {
      block.discard();
      throw error;
    }
    if (i > first) this.flush(first);
    if (fault !== undefined) rejectRequest(fault, i);
  }

  private datagramFault(wr: SendWorkRequest): string | undefined {
    if (this.type !== 'UD' && this.type !== 'DCI') return undefined;
    const { mtu } = this.device.capabilities;
    const bytes = wr.inlineData?.length ?? wr.sgl?.reduce((sum, { length }) => sum + length, 0) ?? 0;
    if (this.type === 'UD' && bytes > mtu) return `a datagram holds one MTU, ${mtu} bytes: got ${bytes}`;
    return wr.ah instanceof IbverbsAddressHandle && !wr.ah.isClosed && wr.ah.pd === this.pd
      ? undefined
      : "ah is closed, or is no address handle of this queue pair's protection domain: make one with its pd.createAh";
  }

  /** Posts what was written; the first of it is request `first` of the chain. */
  private flush(first: number): void {
    const errno = this.block.flush();
    if (errno !== 0) this.refused(errno, first);
  }

  /** The device took only some of the requests. */
  refused(errno: number, first: number): never {
    refuseRequest(errno, first + this.block.taken, `the send queue holds ${this.maxSendWr} requests`);
  }

  postRecv(wr: RecvWorkRequest | readonly RecvWorkRequest[]): void {
    this.assertReceives();
    try {
      this.receives.post(wr);
    } finally {
      this.flushLate();
    }
  }

  postRange(addr: number, length: number, lkey: number, id: number): void {
    this.assertReceives();
    this.receives.postOne(addr, length, lkey, id);
    this.flushLate();
  }

  /** Some devices (rdma_rxe) do not look at receives posted in ERR until they are told again. */
  private flushLate(): void {
    if (super.state !== 'ERR') return;
    this.writeAttributes({});
    this.block.arguments[STATE_WORD] = QP_STATES.indexOf('ERR');
    this.device.addon.modify(this.device.handle, this.object);
  }

  prepare(spec: PrepareSpec): PreparedSend {
    this.assertOpen();
    if ((this.type === 'UD' || this.type === 'DCI') && spec.ah) {
      const fault = this.datagramFault({ opcode: spec.opcode, ah: spec.ah });
      if (fault !== undefined) rejectRequest(fault, 0);
    }
    return new IbverbsPreparedSend(this, this.block, spec);
  }

  prepareRecv(region: MemoryRegion): PreparedRecv {
    this.assertOpen();
    return new QueuedReceive(this, region);
  }

  private assertOpen(): void {
    if (this.isClosed || this.device.isClosed) throw new VerbsError('VERBS_CLOSED', 'the queue pair is closed', { badIndex: 0 });
  }

  /** Throws where sends cannot be posted. */
  assertSends(index: number): void {
    this.assertOpen();
    const state = super.state;
    if (state !== 'RTS') assertTakesSends(this.type, state, index);
  }

  private assertReceives(): void {
    this.assertOpen();
    assertTakesReceives(this.type, super.state, this.shared !== undefined);
  }

  // ---- multicast ----

  attachMulticast(group: string, lid?: number): void {
    this.multicast(group, 1, lid);
  }

  detachMulticast(group: string, lid?: number): void {
    this.multicast(group, 0, lid);
  }

  private multicast(group: string, join: number, lid = 0): void {
    this.assertOpen();
    if (this.type !== 'UD') throw new VerbsError('VERBS_ILLEGAL', `multicast is for UD queue pairs: this one is ${this.type}`);
    const gid = gidOf(group);
    if (gid[0] !== 0xff) throw new VerbsError('VERBS_INVALID', `'${group}' is no multicast group: its GID starts with ff`);
    const { device } = this;
    if (!device.capabilities.multicast)
      throw new VerbsError('VERBS_UNSUPPORTED', `${device.choice.device.name} has no multicast`);
    if (isInfiniBand(device.choice.device, device.choice.port)) checkGroupLid(lid);
    const errno = device.addon.multicast(device.handle, this.object, gid, lid, join);
    if (errno === 0) {
      if (join) this.groups.set(group, lid);
      else this.groups.delete(group);
      return;
    }
    throw systemError(
      errno,
      join ? `cannot join ${group}` : `cannot leave ${group}`,
      errno === EINVAL ? 'VERBS_INVALID' : 'VERBS_SYSTEM',
    );
  }

  close(): void {
    if (this.isClosed) return;
    const { device } = this;
    if (!device.isClosed) {
      this.leaveGroups();
      device.releaseQueuePair(this);
      // Drivers forget completions of a queue pair that goes, and with them which requests of the shared queue are free again.
      if (this.shared) this.cqs[1].gather();
      const errno = device.addon.destroy(device.handle, this.object);
      if (errno !== 0) throw systemError(errno, 'the queue pair cannot be closed', 'VERBS_BUSY');
    }
    this.shut();
    this.pd.release(this);
  }

  /** Before it goes; a device that failed keeps none. */
  leaveGroups(): void {
    for (const [group, lid] of this.groups) this.device.addon.multicast(this.device.handle, this.object, gidOf(group), lid, 0);
    this.groups.clear();
  }

  /** Closes without asking: the device is going. */
  shut(): void {
    this.isClosed = true;
  }
}
