/** Atomics are atomic: two processes and the owner of the memory count in the same words at the same time, and no count is lost. */

import assert from 'node:assert/strict';
import { addRemotely, incrementRemotely } from './counting.js';
import { processTest } from './harness.js';
import { Link, type Offer } from './link.js';

processTest('millions of contended additions and swaps of two processes and the owner add up exactly', async (hand) => {
  const additions = 600_000;
  const increments = 60_000;
  const owner = hand.process('counter-owner', { additions, increments, peers: 2 });
  const other = hand.process('adder', { additions, increments });
  const link = await Link.open(4096);

  const forOther = await owner.hear<Offer>('offer');
  owner.say({ type: 'offer', ...(await other.hear<Offer>('offer')) });
  other.say({ type: 'offer', ...forOther });
  const forThis = await owner.hear<Offer>('offer');
  owner.say({ type: 'offer', ...link.offer() });
  await link.join(forThis);
  await Promise.all([owner.hear('ready'), other.hear('ready')]);

  owner.say({ type: 'go' });
  other.say({ type: 'go' });
  // Lets the two messages out before this thread gives itself to polling.
  await new Promise((resolve) => setImmediate(resolve));
  addRemotely(link, forThis.remote, additions);
  const failures = incrementRemotely(link, forThis.remote, increments);
  const theirs = await Promise.all([owner.hear<{ failures: number }>('done'), other.hear<{ failures: number }>('done')]);
  const contended = failures + theirs[0].failures + theirs[1].failures;
  owner.say({ type: 'sum' });
  const sum = await owner.hear<{ additions: string; increments: string }>('sum');
  assert.equal(sum.additions, String(3 * additions));
  assert.equal(sum.increments, String(3 * increments));
  hand.context.diagnostic(`${contended} swaps met contention`);
  owner.say({ type: 'end' });
  other.say({ type: 'end' });
  await Promise.all([owner.exited, other.exited]);
  link.close();
});
