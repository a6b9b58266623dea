/**
 * Rounds of faults: a peer that makes traffic is killed, stopped or terminated at a random moment; the survivor only polls, without giving
 * its thread away, and must learn it within a second. Shared by the tests and the soak test.
 */

import assert from 'node:assert/strict';
import { openDevice } from '../../src/verbs/open-device.js';
import type { Scenario, ScenarioProcess, Stagehand } from './harness.js';
import { Link, type Offer } from './link.js';
import { Random } from './random.js';
import { Traffic } from './traffic.js';

const LIMIT_MS = 1000;

/** A clock, ms, that stands still while others have the processors: the survivor polls all the time. */
function ownTime(): () => number {
  const [start, used] = [performance.now(), process.cpuUsage()];
  return () => {
    const { user, system } = process.cpuUsage(used);
    return Math.min((user + system) / 1000, performance.now() - start); // other threads of this process count, too
  };
}

export type Fault = 'kill' | 'stop' | 'terminate';

/** Runs rounds until the count is reached or the time is over, but `least` at least; returns how many and the slowest notice. */
export async function faultRounds(
  hand: Stagehand,
  seed: number,
  limits: { rounds: number; least: number; budgetMs: number; faults: readonly Fault[] },
): Promise<{ rounds: number; slowestMs: number }> {
  const end = performance.now() + limits.budgetMs;
  const random = new Random(seed);
  const start = (fault: Fault, round: number): { fault: Fault; seed: number; victim: Scenario } => {
    const input = { seed: seed + round };
    const victim = fault === 'terminate' ? hand.worker('victim', input) : hand.process('victim', input);
    return { fault, seed: seed + round, victim };
  };
  const device = await openDevice('shm');
  let next = start(random.pick(limits.faults), 0);
  let rounds = 0;
  let slowestMs = 0;
  for (;;) {
    const current = next;
    const last = rounds + 1 >= limits.rounds || (rounds + 1 >= limits.least && performance.now() > end);
    if (!last) next = start(random.pick(limits.faults), rounds + 1);
    // A device of its own for some rounds, the shared one for the others: nothing may pile up in it.
    const own = random.between(0, 3) === 0;
    const link = own
      ? await Link.open(Traffic.MEMORY, Traffic.INIT)
      : new Link(device, device.alloc(Traffic.MEMORY), Traffic.INIT);
    try {
      slowestMs = Math.max(slowestMs, await round(link, current, random));
    } catch (error) {
      throw new Error(`round ${rounds} (${current.fault}, VERBENA_SEED=${seed}): ${(error as Error).message}`, { cause: error });
    }
    if (own) {
      link.close();
    } else {
      const memory = link.region.bytes.buffer as ArrayBuffer;
      link.qp.close();
      link.region.deregister();
      link.cq.close();
      link.pd.close();
      device.free(memory);
    }
    rounds++;
    if (last) break;
  }
  device.close();
  return { rounds, slowestMs };
}

async function round(link: Link, current: { fault: Fault; seed: number; victim: Scenario }, random: Random): Promise<number> {
  const { fault, victim } = current;
  const offer = await victim.hear<Offer>('offer');
  await link.join(offer, Traffic.ATTRIBUTES);
  const traffic = new Traffic(link, offer.remote, current.seed + 1);
  traffic.start();
  victim.say({ type: 'offer', ...link.offer() });
  await victim.hear('ready');

  // Traffic until a random moment, then the blow, all without a turn of the event loop.
  const steps = random.between(0, 4000);
  for (let i = 0; i < steps; i++) assert.equal(traffic.step(), undefined, 'no error while both live');
  if (fault === 'stop') await stopAndContinue(link, traffic, victim as ScenarioProcess);
  victim.kill();
  const took = await noticeLoss(link, traffic);
  await victim.exited;
  return took;
}

/** Polls until the loss shows as an error completion or an event. Returns the milliseconds. */
async function noticeLoss(link: Link, traffic: Traffic): Promise<number> {
  const elapsed = ownTime();
  for (;;) {
    const failed = traffic.step();
    const took = elapsed();
    if (failed) {
      assert.ok(failed.cause && failed.cause.words.length > 0, 'the error says why');
      return took;
    }
    const event = link.device.pollEvent();
    if (event?.type === 'PEER_LOST') return took;
    assert.ok(took < LIMIT_MS, `the survivor learned nothing within ${LIMIT_MS} ms`);
  }
}

async function stopAndContinue(link: Link, traffic: Traffic, victim: ScenarioProcess): Promise<void> {
  const waitFor = (type: string, what: string) => {
    const elapsed = ownTime();
    for (;;) {
      assert.equal(traffic.step(), undefined, `no error of a peer that is ${what}`);
      if (link.device.pollEvent()?.type === type) return;
      assert.ok(elapsed() < LIMIT_MS, `no ${type} within ${LIMIT_MS} ms`);
    }
  };
  victim.kill('SIGSTOP');
  waitFor('PEER_STOPPED', 'stopped');
  victim.kill('SIGCONT');
  waitFor('PEER_RESUMED', 'running again');
  const before = traffic.completed;
  const elapsed = ownTime();
  while (traffic.completed < before + 50) {
    assert.equal(traffic.step(), undefined, 'no error after the peer went on');
    assert.ok(elapsed() < 5000, 'traffic goes on after SIGCONT');
  }
}
