/** The other contexts that a device knows: mapped when they are first needed, watched for their death, kept for a while after their last use. */

import { closeSync, fstatSync, openSync } from 'node:fs';
import { VerbsError } from '../../errors.js';
import { systemError } from '../../system-error.js';
import { IndexPool } from './control.js';
import type { ShmDevice } from './device.js';
import { CONTROL_BYTES, H_ATTENTION, H_STATE, IN_ANNOUNCE, STATE_LIVE, WATCH_MAX, WATCH_WORDS } from './layout.js';
import { openPeer, Peer } from './peer.js';
import { Segment } from './segment.js';

/** Mappings kept for peers that nobody uses right now. */
const IDLE_PEERS = 16;

export class Peers {
  /** The device itself, as its own peer. */
  readonly self: Peer;
  readonly #device: ShmDevice;
  readonly #farewell: number;
  readonly #watchPool = new IndexPool(WATCH_MAX, 'watched peers');
  #watch = 0;
  readonly #peers = new Map<string, Peer>();
  /** Peers without users, the one longest without first. */
  readonly #idle = new Set<Peer>();

  constructor(device: ShmDevice) {
    const { door, control } = device;
    this.#device = device;
    this.#farewell = door.addon.farewellOpen(device.addressOfWord(H_STATE));
    this.self = new Peer(door, device.gid, control.id, control.segment, device.bellFd, (index) => control.segments.get(index));
    this.self.enlist(control.id, control.startTime);
  }

  /** The context behind a GID, mapped and watched. Throws VERBS_CLOSED, VERBS_PEER_LOST. */
  of(gid: string): Peer {
    this.#device.assertOpen();
    if (gid === this.#device.gid) return this.self;
    const known = this.#peers.get(gid);
    if (known && !known.dead) return known;
    return this.#adopt(openPeer(this.#device.door, gid));
  }

  /** The same by process and descriptor, for contexts found by searching. */
  ofProcess(pid: number, fd: number, gidOf: (i32: Int32Array) => string): Peer {
    const { control, door } = this.#device;
    const own = control.id;
    if (pid === own.pid && fd === own.fd) return this.self;
    for (const peer of this.#peers.values()) if (peer.pid === pid && peer.id.fd === fd && !peer.dead) return peer;
    const handle = openSync(`/proc/${pid}/fd/${fd}`, 'r+');
    try {
      if (fstatSync(handle).size < CONTROL_BYTES) throw new VerbsError('VERBS_PEER_LOST', `process ${pid} is gone`);
      const probe = new Segment(door, handle, 0, CONTROL_BYTES, true, false);
      const gid = gidOf(probe.i32);
      probe.close(door);
      return this.of(gid);
    } finally {
      closeSync(handle);
    }
  }

  #adopt(peer: Peer): Peer {
    const { control, door, i32 } = this.#device;
    this.#peers.set(peer.gid, peer);
    peer.enlist(control.id, control.startTime);
    const announcements = peer.control.address + (peer.slot + IN_ANNOUNCE) * 4;
    door.addon.farewellAdd(this.#farewell, peer.control.address + H_ATTENTION * 4, peer.bell, announcements);
    if (!peer.sameProcess) {
      if (this.#watch === 0) {
        this.#watch = door.addon.watchStart(this.#device.addressOfWord(H_ATTENTION), this.#device.bellFd);
        if (this.#watch < 0) throw systemError(this.#watch, 'cannot start the thread that watches peers');
      }
      const index = this.#watchPool.take();
      peer.watchWord = WATCH_WORDS + index;
      Atomics.store(i32, peer.watchWord, 0);
      peer.watchHandle = door.addon.watchAdd(this.#watch, peer.pid, peer.startTime, this.#device.addressOfWord(peer.watchWord));
    }
    return peer;
  }

  /** Somebody uses the peer. */
  retain(peer: Peer): void {
    peer.users++;
    this.#idle.delete(peer);
  }

  /** The last user leaves: the mapping stays for a while, since who connected once often connects again. */
  release(peer: Peer): void {
    peer.users--;
    if (peer.users > 0 || peer === this.self) return;
    if (!peer.dead) {
      this.#idle.add(peer);
      if (this.#idle.size <= IDLE_PEERS) return;
    }
    this.#drop(peer.dead ? peer : ([...this.#idle][0] as Peer));
  }

  #drop(peer: Peer): void {
    this.#idle.delete(peer);
    if (this.#peers.get(peer.gid) === peer) this.#peers.delete(peer.gid);
    this.#unwatch(peer);
    this.#device.door.addon.farewellRemove(this.#farewell, peer.control.address + H_ATTENTION * 4);
    peer.close();
  }

  #unwatch(peer: Peer): void {
    if (peer.watchWord < 0) return;
    this.#device.door.addon.watchRemove(this.#watch, peer.watchHandle);
    this.#watchPool.give(peer.watchWord - WATCH_WORDS);
    peer.watchWord = -1;
  }

  /** Something has happened to somebody. */
  attend(): void {
    for (const peer of this.#peers.values()) this.#lookAt(peer);
  }

  #lookAt(peer: Peer): void {
    const device = this.#device;
    if (peer.dead) return;
    const word = peer.watchWord >= 0 ? Atomics.load(device.i32, peer.watchWord) : 0;
    if (word === 2 || Atomics.load(peer.i32, H_STATE) !== STATE_LIVE) {
      peer.dead = true;
      if (peer.users === 0) {
        this.#drop(peer);
        return;
      }
      device.raise({ type: 'PEER_LOST', peer: peer.name, words: `${peer.name} ended` });
      for (const qp of device.queuePairs.values()) if (qp.peer === peer) qp.peerLost();
    } else if ((word === 1) !== peer.stopped) {
      peer.stopped = word === 1;
      const words = peer.stopped
        ? `${peer.name} is stopped (SIGSTOP): one-sided requests still work, receives there will not be posted until it goes on`
        : `${peer.name} goes on`;
      device.raise({ type: peer.stopped ? 'PEER_STOPPED' : 'PEER_RESUMED', peer: peer.name, words });
    }
  }

  /** The device closes: no thread looks any more. */
  stop(): void {
    const { addon } = this.#device.door;
    addon.stop(this.#farewell);
    if (this.#watch !== 0) addon.stop(this.#watch);
  }

  close(): void {
    for (const peer of this.#peers.values()) peer.close();
    this.#peers.clear();
  }
}
