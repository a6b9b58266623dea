/** One of the two processes that measure Verbena; the parent tells it which side to play and when. */

import type { BenchCase } from '../case.js';
import { serve } from '../child-program.js';
import { Endpoint, type EndpointAddress } from './endpoint.js';
import { answerByEvents, initiateByEvents } from './event-loops.js';
import { makeOtherUses } from './other-uses.js';
import { carryOut, confirm, prepareCheck } from './payload-check.js';
import { answerByPolling, clearLastWord, initiateByPolling } from './poll-loops.js';

interface Round {
  readonly batch: number;
  readonly batches: number;
}

/** Not timed, at the start of each round: both sides are there when the clock starts. A multiple of the signal interval. */
const LEAD_IN = 64;

let end: Endpoint;

async function open({ providers, bench }: { providers: string[]; bench: BenchCase }): Promise<EndpointAddress> {
  for (const provider of providers) await makeOtherUses(provider);
  end = await Endpoint.open(providers[0], bench);
  return end.address();
}

/** Waits for a message that never comes; the share of a core that the whole process used meanwhile. */
async function idle(durationMs: number): Promise<number> {
  const cpu = process.cpuUsage();
  const start = performance.now();
  await end.recvCq.ready({ timeoutMs: durationMs }).catch((error) => {
    if (error.code !== 'VERBS_TIMEOUT') throw error;
  });
  const used = process.cpuUsage(cpu);
  return (used.user + used.system) / 1000 / (performance.now() - start);
}

serve({
  open,
  idle,
  connect: (peer: EndpointAddress) => end.connect(peer),
  prepareRound: () => clearLastWord(end),
  initiate: async ({ batch, batches }: Round) => {
    const initiate = end.bench.mode === 'poll' ? initiateByPolling : initiateByEvents;
    await initiate(end, LEAD_IN, 1);
    return initiate(end, batch, batches);
  },
  answer: async ({ batch, batches }: Round) => {
    const answer = end.bench.mode === 'poll' ? answerByPolling : answerByEvents;
    await answer(end, LEAD_IN, 1);
    await answer(end, batch, batches);
  },
  prepareCheck: (seed: number) => prepareCheck(end, seed),
  carryOut: (seed: number) => carryOut(end, seed),
  confirm: (seed: number) => confirm(end, seed),
});
