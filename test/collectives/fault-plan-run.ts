/**
 * Collectives on a simulated fabric in virtual time, under a plan of faults: the same plan gives the same run, packet by packet. Ranks find each other through an exchange that
 * knows nothing of virtual time, so the plan begins when all are connected.
 */

import { MemoryExchange } from '../../conformance/collectives/stage.js';
import { Communicator, type CommunicatorOptions } from '../../src/collectives/index.js';
import { Context } from '../../src/messaging/index.js';
import { SimFabric } from '../../src/verbs/providers/sim/fabric.js';
import type { FaultPlan } from '../../src/verbs/providers/sim/fault-plan.js';

export interface Play {
  readonly ranks: readonly Communicator[];
  /** What happened since the plan began. */
  story(): Story;
  /** Lets time pass until the promise is settled. */
  during<T>(promise: Promise<T>): Promise<T>;
}

/** Two runs with the same story sent the same packets, lost the same and took the same time. */
export interface Story {
  readonly packets: number;
  readonly bytes: number;
  readonly lost: number;
  readonly damaged: number;
  readonly ns: number;
}

/** What goes wrong, with times and packets counted from the beginning of the plan. */
export type Rules = (now: { readonly ns: number; readonly packets: number }) => FaultPlan['rules'];

/** Turns of the event loop after each event, so that everything it set off has happened. */
const TURNS = 8;
const MOST_EVENTS = 5_000_000;

/** Communicators of `size` ranks on a fabric with this plan; closed when `body` is over. */
export async function play<T>(
  seed: number,
  rules: Rules,
  size: number,
  options: Partial<CommunicatorOptions> & { readonly keepaliveMs?: number },
  body: (play: Play) => Promise<T>,
): Promise<T> {
  const live: FaultPlan['rules'][number][] = [];
  // Silence is measured in real time, so what should replay packet by packet does without.
  const { keepaliveMs = 3_600_000, ...more } = options;
  const fabric = new SimFabric({ clock: 'virtual', mtu: 1024, faults: { seed, rules: live } });
  const exchange = new MemoryExchange();
  const contexts = Array.from({ length: size }, () => new Context(fabric.open(), {}, true));
  const during = async <R>(promise: Promise<R>): Promise<R> => {
    let isOver = false;
    promise.then(
      () => (isOver = true),
      () => (isOver = true),
    );
    for (let n = 0; !isOver && n < MOST_EVENTS; n++) {
      for (let turn = 0; turn < TURNS; turn++) await new Promise((resolve) => setImmediate(resolve));
      if (!isOver) fabric.step();
    }
    if (!isOver) throw new Error(`${MOST_EVENTS} events and not done: VERBENA_SEED=${seed}`);
    return promise;
  };
  try {
    const make = async (context: Context, rank: number): Promise<Communicator> => {
      const worker = await context.createWorker({ mode: 'event', ring: 'immediate', keepaliveMs });
      return Communicator.create({ ...more, rank, size, exchange, worker });
    };
    const ranks = await during(Promise.all(contexts.map(make)));
    await during(Promise.all(ranks.map((comm) => comm.barrier())));
    const [start, startNs] = [fabric.counters(), fabric.nowNs];
    live.push(...rules({ ns: startNs, packets: fabric.devices[1].sentPackets }));
    const story = (): Story => {
      const { packets, bytes, lost, corruptCaught } = fabric.counters();
      return {
        packets: packets - start.packets,
        bytes: bytes - start.bytes,
        lost,
        damaged: corruptCaught,
        ns: fabric.nowNs - startNs,
      };
    };
    const result = await body({ story, ranks, during });
    live.length = 0;
    for (const comm of ranks) comm.close();
    return result;
  } finally {
    for (const context of contexts) await during(context.close());
  }
}
