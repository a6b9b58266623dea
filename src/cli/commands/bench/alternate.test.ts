import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { alternate } from './alternate.js';
import type { BenchCase } from './case.js';
import type { Subject } from './subject.js';

const BENCH: BenchCase = { op: 'send', metric: 'latency', size: 8, mode: 'poll', memory: 'arena' };

/** A subject that writes down what happens to it. */
function recorder(who: string, log: string[], value: number, failAt?: string): Subject {
  const step = async (what: string) => {
    log.push(`${who} ${what}`);
    if (what === failAt) throw new Error(`${who} broke`);
  };
  return {
    who,
    unfit: () => undefined,
    missing: async () => undefined,
    start: async () => {
      await step('start');
      return {
        warmUp: () => step('warm-up'),
        round: async () => {
          await step('round');
          return [value, value];
        },
        verify: () => step('verify'),
        describe: () => ({ what: 'nothing' }),
        close: () => step('close'),
      };
    },
  };
}

function options(rounds: number) {
  return {
    rounds,
    roundMs: 1,
    cpus: [0, 1] as const,
    signal: new AbortController().signal,
    deadline: Number.POSITIVE_INFINITY,
    progress: () => {},
  };
}

describe('Side by side', () => {
  it('everybody warms up, then they take turns, and payloads are verified before and after', async () => {
    const log: string[] = [];
    const { measured } = await alternate(BENCH, [recorder('a', log, 1), recorder('b', log, 2)], options(2));
    assert.deepEqual(
      log.map((line) => line.replace('warm-up', 'warm')),
      [
        'a start',
        'a verify',
        'a warm',
        'b start',
        'b verify',
        'b warm',
        'a round',
        'b round',
        'a round',
        'b round',
        'a verify',
        'b verify',
        'a close',
        'b close',
      ],
    );
    assert.deepEqual(
      measured.map(({ who, summary, verified }) => [who, summary.p50, verified]),
      [
        ['a', 1, true],
        ['b', 2, true],
      ],
    );
  });

  it('a peer that breaks is reported and the others go on', async () => {
    const log: string[] = [];
    const { measured, failed } = await alternate(BENCH, [recorder('a', log, 1), recorder('b', log, 2, 'round')], options(3));
    assert.deepEqual(
      measured.map(({ who }) => who),
      ['a'],
    );
    assert.deepEqual(failed, { b: 'b broke' });
    assert.ok(log.includes('b close'));
  });

  it('our own failure is thrown, and everything is closed', async () => {
    const log: string[] = [];
    await assert.rejects(alternate(BENCH, [recorder('a', log, 1, 'warm-up'), recorder('b', log, 2)], options(3)), /a broke/);
    assert.ok(log.includes('a close'));
  });

  it('no further round starts when the time would not suffice', async () => {
    const log: string[] = [];
    await alternate(BENCH, [recorder('a', log, 1)], { ...options(50), deadline: 0 });
    assert.equal(log.filter((line) => line === 'a round').length, 1);
  });
});
