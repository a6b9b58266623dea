import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { verbena, verbenaJson } from './verbena.js';

interface Run {
  seed: number;
  traceHash: string;
  fault?: string;
  plan: { seed: number; rules: { kind: string }[] };
}

describe('verbena sim', () => {
  it('plays the run of a seed the same way every time', async () => {
    const [one, two] = [await verbenaJson<Run>(['sim', 'replay', '7']), await verbenaJson<Run>(['sim', 'replay', '7'])];
    assert.equal(one.seed, 7);
    assert.equal(one.fault, undefined);
    assert.equal(one.traceHash, two.traceHash);
  });

  it('plays a seed under another plan', async () => {
    const plan = '{"seed":3,"rules":[{"kind":"drop","perMillion":50000}]}';
    const run = await verbenaJson<Run>(['sim', 'replay', '7', '--plan', plan]);
    assert.deepEqual(run.plan, JSON.parse(plan));
    const { code, stderr } = await verbena(['sim', 'replay', '7', '--plan', '{"seed":3,"rules":[{"kind":"eat"}]}']);
    assert.equal(code, 2);
    assert.match(stderr, /unknown kind 'eat'/);
  });

  it('searches seeds, and says how fast', async () => {
    const found = await verbenaJson<{ played: number; eventsPerSecond: number }>(['sim', 'search', '--count', '20']);
    assert.equal(found.played, 20);
    assert.ok(found.eventsPerSecond > 0);
  });

  it('plays all-to-all between many devices', async () => {
    const { messages, packetsPerSecond } = await verbenaJson<{ messages: number; packetsPerSecond: number }>([
      'sim',
      'scale',
      '--devices',
      '32',
    ]);
    assert.equal(messages, 32 * 31);
    assert.ok(packetsPerSecond > 0);
  });
});
