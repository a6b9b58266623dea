import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { BenchCase } from '../case.js';
import { checkPayload, fillPattern, hasPattern, initiate, type Pipe, respond } from './pipe.js';

const BASE: BenchCase = { op: 'send', metric: 'latency', size: 64, mode: 'poll', memory: 'arena' };

/** Two ends that hand copies to each other, one event-loop turn later. */
function channel(damage = false): [Pipe, Pipe] {
  const ends = [0, 1].map((): Pipe => ({ send: () => {}, onMessage: () => {} }));
  ends.forEach((end, i) => {
    end.send = (message) => {
      const copy = message.slice();
      if (damage) copy[7] ^= 1;
      setImmediate(() => ends[1 - i].onMessage(copy));
    };
  });
  return ends as [Pipe, Pipe];
}

describe('Message loops', () => {
  it('patterns differ by seed and notice one wrong byte', () => {
    const bytes = new Uint8Array(1000);
    fillPattern(bytes, 5);
    assert.equal(hasPattern(bytes, 5), true);
    assert.equal(hasPattern(bytes, 6), false);
    bytes[999] ^= 1;
    assert.equal(hasPattern(bytes, 5), false);
  });

  it('ping-pong gives a value for each batch', async () => {
    const [a, b] = channel();
    respond(b, BASE);
    const values = await initiate(a, BASE, 10, 3);
    assert.equal(values.length, 3);
    assert.ok(values.every((value) => value > 0));
  });

  it('a stream sends exactly its messages and never more than the window ahead', async () => {
    const bench: BenchCase = { ...BASE, metric: 'rate' };
    const [a, b] = channel();
    let sent = 0;
    let answered = 0;
    let widest = 0;
    const send = a.send;
    a.send = (message) => {
      sent++;
      widest = Math.max(widest, sent - answered * 32);
      send(message);
    };
    respond(b, bench);
    const answer = b.send;
    b.send = (message) => {
      answered++;
      answer(message);
    };
    const values = await initiate(a, bench, 64, 4);
    assert.equal(values.length, 4);
    assert.equal(sent, 256);
    assert.ok(widest <= 64, `window of ${widest}`);
  });

  it('a damaged payload is noticed', async () => {
    for (const metric of ['latency', 'rate'] as const) {
      const bench = { ...BASE, metric };
      for (const damage of [false, true]) {
        const [a, b] = channel(damage);
        respond(b, bench);
        assert.equal(await checkPayload(a, bench), !damage);
      }
    }
  });
});
