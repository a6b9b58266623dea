/** Answers in memory alone: waits for a sequence number with Atomics, reads plain words behind it, writes plain words and its own number. */

import { Link, type Offer } from '../link.js';
import { answerPings } from '../plain-memory.js';
import { hear, say, scenario } from '../scenario.js';

scenario<{ rounds: number }>(async ({ rounds }) => {
  const link = await Link.open(4096);
  say('offer', link.offer());
  await link.join(await hear<Offer>('offer'));
  say('ready');
  const stale = answerPings(link.region.bytes, rounds);
  say('done', { stale });
  await hear('end');
  link.close();
});
