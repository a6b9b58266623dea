/**
 * Makes traffic in both directions until it is killed: sends, receives, writes, reads and atomics of random sizes, most of the time in a
 * synchronous loop, so that death can come at any instruction.
 */

import { Link, type Offer } from '../link.js';
import { hear, say, scenario } from '../scenario.js';
import { Traffic } from '../traffic.js';

scenario<{ seed: number }>(async ({ seed }) => {
  const link = await Link.open(Traffic.MEMORY, Traffic.INIT);
  say('offer', link.offer());
  const peer = await hear<Offer>('offer');
  await link.join(peer, Traffic.ATTRIBUTES);
  const traffic = new Traffic(link, peer.remote, seed);
  traffic.start();
  say('ready');
  for (;;) {
    const until = performance.now() + 5;
    while (performance.now() < until) if (traffic.step() !== undefined) break;
    await new Promise((resolve) => setImmediate(resolve));
  }
});
