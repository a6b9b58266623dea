/**
 * Multicast groups of a host without a directory: every context lists its own memberships in its control segment, and senders collect them.
 *
 * Who joins or leaves raises H_MULTICAST in every context it finds. A sender whose word has not changed since it collected the members sends to them at
 * once; else it looks through the processes of this user again. A context that starts later collects at its first send, so it misses nobody.
 */

import { readdirSync, readlinkSync, statSync } from 'node:fs';
import { VerbsError } from '../../errors.js';
import { formatGid, IndexPool } from './control.js';
import type { ShmDevice } from './device.js';
import {
  CONTROL_NAME,
  H_ID_HI,
  H_ID_LO,
  H_MULTICAST,
  H_PID,
  H_STATE,
  MULTICAST_MAX,
  MULTICAST_WORDS,
  MULTICASTS,
  STATE_LIVE,
} from './layout.js';
import type { Peer } from './peer.js';
import { Target } from './target.js';

/** A control segment found in a process of this user. */
export interface FoundContext {
  readonly pid: number;
  readonly fd: number;
}

/** All contexts of this user on this host: open descriptors that are control segments. */
export function findContexts(): FoundContext[] {
  const found: FoundContext[] = [];
  const uid = process.geteuid?.() ?? 0;
  for (const entry of readdirSync('/proc')) {
    const pid = Number(entry);
    if (!Number.isInteger(pid)) continue;
    try {
      if (statSync(`/proc/${pid}`).uid !== uid) continue;
      for (const fd of readdirSync(`/proc/${pid}/fd`)) {
        try {
          if (readlinkSync(`/proc/${pid}/fd/${fd}`).startsWith(`/memfd:${CONTROL_NAME}`)) found.push({ pid, fd: Number(fd) });
        } catch {
          // closed meanwhile
        }
      }
    } catch {
      // ended meanwhile
    }
  }
  return found;
}

/** Four words of a group's GID; '::' stands for zeros as usual. Throws VERBS_INVALID. */
function groupWords(group: string): Int32Array {
  const [left, right] = group.toLowerCase().split('::');
  const front = left ? left.split(':') : [];
  const back = right ? right.split(':') : [];
  const zeros = right === undefined ? 0 : 8 - front.length - back.length;
  const parts = [...front, ...new Array(Math.max(0, zeros)).fill('0'), ...back].map((part) => Number.parseInt(part, 16));
  if (parts.length !== 8 || parts.some((p) => !(p >= 0 && p <= 0xffff)) || parts[0] >> 8 !== 0xff) {
    throw new VerbsError(
      'VERBS_INVALID',
      `'${group}' is not a multicast GID: eight groups of hexadecimal digits, the first one ff..`,
    );
  }
  return Int32Array.from([0, 2, 4, 6], (i) => (parts[i] << 16) | parts[i + 1]);
}

const sameGroup = (i32: Int32Array, at: number, words: Int32Array) => words.every((word, i) => i32[at + 1 + i] === word);

export class Multicast {
  readonly #device: ShmDevice;
  readonly #pool = new IndexPool(MULTICAST_MAX, 'multicast memberships');
  readonly #entries = new Map<string, number>();
  readonly #members = new Map<string, { readonly stamp: number; readonly targets: readonly Target[] }>();
  /** Contexts held because groups were looked up there. */
  readonly #held = new Set<Peer>();

  constructor(device: ShmDevice) {
    this.#device = device;
  }

  join(group: string, qpNum: number): void {
    const words = groupWords(group);
    const index = this.#pool.take();
    const at = MULTICASTS + index * MULTICAST_WORDS;
    const { i32 } = this.#device;
    i32.set(words, at + 1);
    Atomics.store(i32, at, qpNum + 1);
    this.#entries.set(`${qpNum} ${group}`, index);
    this.#tell();
  }

  leave(group: string, qpNum: number): void {
    const index = this.#entries.get(`${qpNum} ${group}`);
    if (index === undefined) return;
    this.#entries.delete(`${qpNum} ${group}`);
    Atomics.store(this.#device.i32, MULTICASTS + index * MULTICAST_WORDS, 0);
    this.#pool.give(index);
    this.#tell();
  }

  /** The queue pairs in a group, on the whole host. */
  members(group: string): readonly Target[] {
    const stamp = Atomics.load(this.#device.i32, H_MULTICAST);
    const known = this.#members.get(group);
    if (known && known.stamp === stamp && known.targets.every((target) => !target.peer.dead)) return known.targets;
    const words = groupWords(group);
    const targets: Target[] = [];
    this.#eachContext((peer) => {
      for (let index = 0; index < MULTICAST_MAX; index++) {
        const at = MULTICASTS + index * MULTICAST_WORDS;
        const qp = Atomics.load(peer.i32, at) - 1;
        if (qp < 0 || !sameGroup(peer.i32, at, words)) continue;
        targets.push(new Target(peer, qp));
      }
    });
    this.#members.set(group, { stamp, targets });
    return targets;
  }

  /** Every context of the user learns that some group changed. */
  #tell(): void {
    this.#eachContext((peer) => {
      Atomics.add(peer.i32, H_MULTICAST, 1);
    });
  }

  #eachContext(visit: (peer: Peer) => void): void {
    const device = this.#device;
    for (const { pid, fd } of findContexts()) {
      let peer: Peer;
      try {
        peer = device.peers.ofProcess(pid, fd, (i32) =>
          formatGid({ pid: i32[H_PID], fd, idLo: i32[H_ID_LO], idHi: i32[H_ID_HI] }),
        );
      } catch {
        continue; // ended meanwhile, or of another version
      }
      if (Atomics.load(peer.i32, H_STATE) !== STATE_LIVE) continue;
      if (!this.#held.has(peer)) {
        this.#held.add(peer);
        device.peers.retain(peer);
      }
      visit(peer);
    }
  }
}
