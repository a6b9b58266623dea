import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decideFate, Fate, type FaultPlan, type FaultRule, planFault, randomPlan, shrinkPlan } from './fault-plan.js';
import { Random } from './random.js';

function fateOf(rules: FaultRule[], from: number, to: number, now: number, packet: number): Fate {
  const fate = new Fate();
  decideFate({ seed: 1, rules }, new Random(1), from, to, now, packet, fate);
  return fate;
}

test('a rule applies to its devices, times and packet numbers and to no others', () => {
  const rules: FaultRule[] = [{ kind: 'drop', from: 1, to: 2, afterNs: 100, beforeNs: 200, firstPacket: 5, lastPacket: 6 }];
  assert.equal(fateOf(rules, 1, 2, 100, 5).isLost, true);
  assert.equal(fateOf(rules, 1, 2, 199, 6).isLost, true);
  for (const [from, to, now, packet] of [
    [2, 1, 100, 5],
    [1, 3, 100, 5],
    [1, 2, 99, 5],
    [1, 2, 200, 5],
    [1, 2, 100, 4],
    [1, 2, 100, 7],
  ]) {
    assert.equal(fateOf(rules, from, to, now, packet).isLost, false);
  }
});

test('links and partitions cut in both directions', () => {
  const down: FaultRule[] = [{ kind: 'linkDown', device: 3, beforeNs: 50 }];
  assert.deepEqual(
    [fateOf(down, 3, 1, 0, 1), fateOf(down, 1, 3, 0, 1), fateOf(down, 1, 2, 0, 1), fateOf(down, 3, 1, 50, 1)].map(
      (f) => f.isLost,
    ),
    [true, true, false, false],
  );
  const parted: FaultRule[] = [{ kind: 'partition', devices: [0, 1] }];
  assert.deepEqual(
    [fateOf(parted, 0, 1, 0, 1), fateOf(parted, 0, 2, 0, 1), fateOf(parted, 2, 3, 0, 1)].map((f) => f.isLost),
    [false, true, false],
  );
});

test('chances come from the seed', () => {
  const plan: FaultPlan = { seed: 1, rules: [{ kind: 'drop', perMillion: 100_000 }] };
  const lost = (seed: number) => {
    const random = new Random(seed);
    const fate = new Fate();
    return Array.from({ length: 1000 }, () => {
      decideFate(plan, random, 0, 1, 0, 1, fate);
      return fate.isLost;
    });
  };
  assert.deepEqual(lost(4), lost(4));
  const count = lost(4).filter(Boolean).length;
  assert.ok(count > 60 && count < 140, `${count} of about 100`);
});

test('a plan that is none is named', () => {
  assert.match(planFault({ seed: 0.5, rules: [] }) ?? '', /seed/);
  assert.match(planFault({ seed: 1, rules: [{ kind: 'explode' } as unknown as FaultRule] }) ?? '', /unknown kind 'explode'/);
  assert.match(planFault({ seed: 1, rules: [{ kind: 'kill', device: 1 }] }) ?? '', /atNs/);
  assert.match(planFault({ seed: 1, rules: [{ kind: 'delay', delayNs: 0 }] }) ?? '', /delayNs/);
  for (let seed = 0; seed < 50; seed++) assert.equal(planFault(randomPlan(new Random(seed), 4)), undefined);
});

test('the shrinker leaves the one rule that matters, as weak as it may be', () => {
  const plan: FaultPlan = {
    seed: 1,
    rules: [
      { kind: 'drop', perMillion: 1000 },
      { kind: 'corrupt', perMillion: 64_000 },
      { kind: 'delay', delayNs: 50 },
    ],
  };
  const fails = (p: FaultPlan) => p.rules.some((r) => r.kind === 'corrupt' && (r.perMillion ?? 0) >= 1000);
  assert.deepEqual(shrinkPlan(plan, fails), { seed: 1, rules: [{ kind: 'corrupt', perMillion: 1000 }] });
});
