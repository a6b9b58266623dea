/** One of the two processes that measure messaging; the parent tells it which side to play and when. */

import { serve } from '../bench/child-program.js';
import { makeOtherUses } from '../bench/ours/other-uses.js';
import type { MessagingCase } from './messaging-case.js';
import { type EndAddress, MessagingEnd } from './messaging-end.js';

interface Round {
  readonly batch: number;
  readonly batches: number;
  readonly initiator: boolean;
}

let end: MessagingEnd;

serve({
  open: async (bench: MessagingCase): Promise<EndAddress> => {
    const [first] = bench.engine.split(',');
    await makeOtherUses(/^ucx/.test(first) ? 'shm' : first);
    end = await MessagingEnd.open(bench);
    return end.address();
  },
  connect: ({ peer, initiator }: { peer: EndAddress; initiator: boolean }) => end.connect(peer, initiator),
  round: ({ batch, batches, initiator }: Round) => end.round(batch, batches, initiator),
  check: ({ seed, initiator }: { seed: number; initiator: boolean }) => end.check(seed, initiator),
  idle: (durationMs: number) => end.idle(durationMs),
});
