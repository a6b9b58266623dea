/**
 * Owns the words that others count in, and counts itself with the Atomics of JavaScript on the same words, until a peer writes the stop word.
 * Word 0: additions. Word 1: increments by compare-and-swap, at a slower pace so that the others find gaps. Word 2: stop.
 */

import { Link, type Offer } from '../link.js';
import { hear, say, scenario } from '../scenario.js';

scenario<{ peers: number }>(async ({ peers }) => {
  const first = await Link.open(4096);
  const pairs = [first.qp, ...Array.from({ length: peers - 1 }, () => first.makeQp())];
  for (const qp of pairs) {
    say('offer', { address: qp.address(), remote: first.region.remote() });
    await qp.connect((await hear<Offer>('offer')).address);
  }
  say('ready');
  await hear('go');
  say('counting');
  const words = first.words;
  let additions = 0;
  let increments = 0;
  let failures = 0;
  const deadline = Date.now() + 25_000;
  while (Atomics.load(words, 2) === 0n && Date.now() < deadline) {
    for (let i = 0; i < 256; i++) Atomics.add(words, 0, 1n);
    additions += 256;
    const seen = Atomics.load(words, 1);
    if (Atomics.compareExchange(words, 1, seen, seen + 1n) === seen) increments++;
    else failures++;
  }
  say('sum', { additions, increments, failures, words: [String(Atomics.load(words, 0)), String(Atomics.load(words, 1))] });
  await hear('end');
  first.close();
});
