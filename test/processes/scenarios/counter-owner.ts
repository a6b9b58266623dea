/** Owns the words that others count in, and counts itself with the Atomics of JavaScript on the same words. */

import { Link, type Offer } from '../link.js';
import { hear, say, scenario } from '../scenario.js';

scenario<{ additions: number; increments: number; peers: number }>(async ({ additions, increments, peers }) => {
  const first = await Link.open(4096);
  const pairs = [first.qp, ...Array.from({ length: peers - 1 }, () => first.makeQp())];
  for (const qp of pairs) {
    say('offer', { address: qp.address(), remote: first.region.remote() });
    await qp.connect((await hear<Offer>('offer')).address);
  }
  say('ready');
  await hear('go');
  const words = first.words;
  for (let i = 0; i < additions; i++) Atomics.add(words, 0, 1n);
  let failures = 0;
  for (let done = 0; done < increments; ) {
    const seen = Atomics.load(words, 1);
    if (Atomics.compareExchange(words, 1, seen, seen + 1n) === seen) done++;
    else failures++;
  }
  say('done', { failures });
  await hear('sum');
  say('sum', { additions: String(Atomics.load(words, 0)), increments: String(Atomics.load(words, 1)) });
  await hear('end');
  first.close();
});
