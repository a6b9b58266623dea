import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ANY_SOURCE, PostedReceives, UnexpectedMessages } from './match-queue.js';

interface Entry {
  context: number;
  lo: number;
  hi: number;
  maskLo: number;
  maskHi: number;
  source: number;
  value: number;
}

/** The rule itself: the first in the list that fits. */
const fits = (receive: Entry, message: Entry) =>
  receive.context === message.context &&
  ((receive.lo ^ message.lo) & receive.maskLo) === 0 &&
  ((receive.hi ^ message.hi) & receive.maskHi) === 0 &&
  (receive.source === ANY_SOURCE || receive.source === message.source);

function generator(seed: number): (below: number) => number {
  let state = seed >>> 0 || 1;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
}

describe('tag matching', () => {
  it('takes the oldest entry that fits, for any mix of masks, sources and contexts', (t) => {
    const seed = Number(process.env['VERBENA_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
    t.diagnostic(`VERBENA_SEED=${seed}`);
    const random = generator(seed);
    const posted = new PostedReceives();
    const unexpected = new UnexpectedMessages();
    const postedModel: Entry[] = [];
    const unexpectedModel: Entry[] = [];
    const masks = [-1, -1, -1, 0, 1, 0xff];
    for (let step = 0; step < 20_000; step++) {
      const message: Entry = {
        context: random(2),
        lo: random(step < 10_000 ? 4 : 300) - 1, // few tags keep the queues short, many make them long enough for bins
        hi: random(2) - 1,
        maskLo: -1,
        maskHi: -1,
        source: random(3),
        value: step,
      };
      if (random(2) === 0) {
        const row = posted.find(message.context, message.lo, message.hi, message.source);
        const at = postedModel.findIndex((receive) => fits(receive, message));
        assert.equal(row < 0 ? undefined : posted.value(row), postedModel[at]?.value);
        if (row >= 0) {
          posted.remove(row);
          postedModel.splice(at, 1);
        } else {
          unexpected.add(message.context, message.lo, message.hi, message.source, message.value);
          unexpectedModel.push(message);
        }
      } else {
        const receive = {
          ...message,
          maskLo: masks[random(masks.length)],
          maskHi: masks[random(masks.length)],
          source: random(4) - 1,
        };
        const row = unexpected.find(receive.context, receive.lo, receive.hi, receive.maskLo, receive.maskHi, receive.source);
        const at = unexpectedModel.findIndex((candidate) => fits(receive, candidate));
        assert.equal(row < 0 ? undefined : unexpected.value(row), unexpectedModel[at]?.value);
        if (row >= 0) {
          unexpected.remove(row);
          unexpectedModel.splice(at, 1);
        } else {
          posted.add(receive.context, receive.lo, receive.hi, receive.maskLo, receive.maskHi, receive.source, receive.value);
          postedModel.push(receive);
        }
      }
      assert.equal(posted.count, postedModel.length);
      assert.equal(unexpected.count, unexpectedModel.length);
    }
  });

  it('finds an exact receive among many thousands without walking them', () => {
    const posted = new PostedReceives();
    for (let tag = 0; tag < 50_000; tag++) posted.add(0, tag, 0, -1, -1, ANY_SOURCE, tag);
    // Each find would take 50,000 steps in a list; the whole loop would take minutes.
    for (let tag = 49_999; tag >= 0; tag--) {
      const row = posted.find(0, tag, 0, 3);
      assert.equal(posted.value(row), tag);
      posted.remove(row);
    }
    assert.equal(posted.count, 0);
  });

  it('does not give a message of one context to a wildcard of another', () => {
    const posted = new PostedReceives();
    posted.add(0, 0, 0, 0, 0, ANY_SOURCE, 1);
    assert.equal(posted.find(1, 7, 0, 0), -1);
    assert.notEqual(posted.find(0, 7, 0, 0), -1);
  });
});
