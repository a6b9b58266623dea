/** Counting in the memory of a peer with the prepared form, by polling alone. Word 0: additions. Word 1: increments by compare-and-swap. */

import assert from 'node:assert/strict';
import type { RemoteRegion } from '../../src/verbs/index.js';
import type { Link } from './link.js';

const WINDOW = 32;

/** Adds 1 to word 0 of the peer, `count` times, with a window of requests in flight. */
export function addRemotely(link: Link, remote: RemoteRegion, count: number): void {
  const add = link.qp.prepare({ opcode: 'ATOMIC_FETCH_AND_ADD', local: link.region, remote });
  add.addLo = 1;
  let posted = 0;
  let done = 0;
  while (done < count) {
    while (posted < count && posted - done < WINDOW) {
      add.post((posted % WINDOW) * 8, 8, posted, 0);
      posted++;
    }
    const n = link.cq.poll(link.wcs);
    if (n === 0) link.patience.lose();
    else link.patience.win();
    for (let i = 0; i < n; i++) assert.equal(link.wcs.status[i], 0);
    done += n;
  }
}

/** Increments word 1 of the peer by compare-and-swap, `count` times. Returns how often somebody else was faster. */
export function incrementRemotely(link: Link, remote: RemoteRegion, count: number): number {
  const swap = link.qp.prepare({ opcode: 'ATOMIC_CMP_AND_SWP', local: link.region, remote });
  const halves = new Uint32Array(link.region.bytes.buffer, link.region.bytes.byteOffset, 2);
  let failures = 0;
  let expected = 0;
  for (let done = 0; done < count; ) {
    swap.compareLo = expected;
    swap.swapLo = expected + 1;
    swap.post(0, 8, done, 8);
    while (link.cq.poll(link.wcs) === 0) link.patience.lose();
    link.patience.win();
    assert.equal(link.wcs.status[0], 0);
    if (halves[0] === expected) {
      done++;
      expected++;
    } else {
      failures++;
      expected = halves[0];
    }
  }
  return failures;
}
