/**
 * The multicast groups of a device. The kernel wants a socket for each, which the device has while one of its queue pairs is a member; a packet that
 * arrives there names the group by its number.
 */

import type { Addon } from '../../../native/addon.js';
import { ipText } from '../../ip-address.js';
import { systemError } from '../../system-error.js';
import type { EngineQueuePair } from './engine-queue-pair.js';
import type { End } from './messages.js';

interface Group {
  readonly end: End;
  readonly members: EngineQueuePair[];
}

const NOBODY: readonly EngineQueuePair[] = [];

export class Groups {
  private readonly addon: Addon;
  private readonly datagram: number;
  /** By the number that the socket gave. */
  private readonly list: (Group | undefined)[] = [];

  constructor(addon: Addon, datagram: number) {
    this.addon = addon;
    this.datagram = datagram;
  }

  /** Who gets what was sent to a group. */
  members(number: number): readonly EngineQueuePair[] {
    return this.list[number]?.members ?? NOBODY;
  }

  address(number: number): Uint8Array {
    return (this.list[number] as Group).end.address;
  }

  /** Joining twice changes nothing. Throws when the kernel refuses. */
  join(qp: EngineQueuePair, end: End): void {
    let number = this.numberOf(end);
    if (number < 0) {
      number = this.addon.datagramJoin(this.datagram, ipText(end.address), end.port);
      if (number < 0) throw systemError(-number, `cannot join the group ${ipText(end.address)}`);
      this.list[number] = { end, members: [] };
    }
    const { members } = this.list[number] as Group;
    if (!members.includes(qp)) members.push(qp);
  }

  /** Throws when the queue pair is not a member. */
  leave(qp: EngineQueuePair, end: End): void {
    if (!this.remove(qp, this.numberOf(end))) throw new Error(`the queue pair is not in the group ${ipText(end.address)}`);
  }

  /** The queue pair goes, and leaves all groups. */
  forget(qp: EngineQueuePair): void {
    for (const number of this.list.keys()) this.remove(qp, number);
  }

  private numberOf({ address }: End): number {
    return this.list.findIndex((group) => group && Buffer.compare(group.end.address, address) === 0);
  }

  private remove(qp: EngineQueuePair, number: number): boolean {
    const members = this.list[number]?.members;
    const at = members?.indexOf(qp) ?? -1;
    if (members === undefined || at < 0) return false;
    members.splice(at, 1);
    if (members.length === 0) {
      this.list[number] = undefined;
      this.addon.datagramLeave(this.datagram, number);
    }
    return true;
  }
}
