/** An initiator that counts in the memory of a peer: fetch-and-add on one word, and increments by compare-and-swap on another. */

import { addRemotely, incrementRemotely } from '../counting.js';
import { Link, type Offer } from '../link.js';
import { hear, say, scenario } from '../scenario.js';

scenario<{ additions: number; increments: number }>(async ({ additions, increments }) => {
  const link = await Link.open(4096);
  say('offer', link.offer());
  const peer = await hear<Offer>('offer');
  await link.join(peer);
  say('ready');
  await hear('go');
  addRemotely(link, peer.remote, additions);
  const failures = incrementRemotely(link, peer.remote, increments);
  say('done', { failures });
  await hear('end');
  link.close();
});
