/** Atomics are atomic: two processes and the owner of the memory count in the same words at the same time, and no count is lost. */

import assert from 'node:assert/strict';
import { addRemotely, incrementRemotely } from './counting.js';
import { processTest } from './harness.js';
import { Link, type Offer } from './link.js';

interface Sum {
  additions: number;
  increments: number;
  failures: number;
  words: [string, string];
}

processTest('millions of contended additions and swaps of two processes and the owner add up exactly', async (hand) => {
  const additions = 600_000;
  const increments = 60_000;
  const owner = hand.process('counter-owner', { peers: 2 });
  const other = hand.process('adder', { additions, increments });
  const link = await Link.open(4096);

  const forOther = await owner.hear<Offer>('offer');
  owner.say({ type: 'offer', ...(await other.hear<Offer>('offer')) });
  other.say({ type: 'offer', ...forOther });
  const { address, remote } = await owner.hear<Offer>('offer');
  owner.say({ type: 'offer', ...link.offer() });
  await link.join({ address, remote });
  await Promise.all([owner.hear('ready'), other.hear('ready')]);

  owner.say({ type: 'go' });
  await owner.hear('counting');
  other.say({ type: 'go' });
  // Lets the message out before this thread gives itself to polling.
  await new Promise((resolve) => setImmediate(resolve));
  addRemotely(link, remote, additions);
  const failures = incrementRemotely(link, remote, increments);
  const theirs = await other.hear<{ failures: number }>('done');
  link.words[0] = 1n;
  link.qp.postSend({ opcode: 'RDMA_WRITE', sgl: [link.region.slice(0, 8)], remoteAddr: remote.addr + 16, rkey: remote.rkey });
  link.next();
  const sum = await owner.hear<Sum>('sum');
  assert.equal(sum.words[0], String(2 * additions + sum.additions));
  assert.equal(sum.words[1], String(2 * increments + sum.increments));
  assert.ok(failures + theirs.failures > 0, 'swaps met contention');
  hand.context.diagnostic(
    `${2 * additions} remote and ${sum.additions} own additions; ${failures + theirs.failures + sum.failures} swaps met contention`,
  );
  owner.say({ type: 'end' });
  other.say({ type: 'end' });
  await Promise.all([owner.exited, other.exited]);
  link.close();
});
