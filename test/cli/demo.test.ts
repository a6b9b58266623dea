import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { verbenaJson } from './verbena.js';

interface Document {
  reached: {
    targetPid: number;
    initiatorPid: number;
    steps: { name: string; words: string; operationUs: number; count: number }[];
    sights: { clockMs: number; turns: number; primes: number }[];
    awakening: { blockedMs: number; turnsWhileBlocked: number; reply: string; counter: number };
  };
}

describe('verbena demo', () => {
  it('reads, writes and counts in the memory of a process whose thread is blocked', async () => {
    const { reached } = await verbenaJson<Document>(['demo', '--no-bench']);
    const [first, last] = reached.sights;
    assert.ok(last.clockMs > first.clockMs && last.primes > first.primes, 'the target was computing');
    assert.equal(last.turns, first.turns, 'its event loop stood still');
    assert.equal(reached.awakening.turnsWhileBlocked, 0);
    const [read, write, add] = reached.steps;
    assert.equal(read.words, `a string in the memory of process ${reached.targetPid}`);
    assert.equal(reached.awakening.reply, write.words);
    assert.equal(reached.awakening.counter, add.count);
  });
});
