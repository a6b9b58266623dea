import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ANY_SOURCE, MatchEntry, PostedReceives, UnexpectedMessages } from './match-queue.js';

class Entry extends MatchEntry {
  value = 0;
}

type Fields = Pick<Entry, 'context' | 'tagLo' | 'tagHi' | 'maskLo' | 'maskHi' | 'source' | 'value'>;

const entry = (fields: Partial<Fields>): Entry => Object.assign(new Entry(), fields);

/** The rule itself: the first in the list that fits. */
const fits = (receive: Fields, message: Fields) =>
  receive.context === message.context &&
  ((receive.tagLo ^ message.tagLo) & receive.maskLo) === 0 &&
  ((receive.tagHi ^ message.tagHi) & receive.maskHi) === 0 &&
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
    const posted = new PostedReceives(new Entry());
    const unexpected = new UnexpectedMessages();
    const postedModel: Fields[] = [];
    const unexpectedModel: Fields[] = [];
    const masks = [-1, -1, -1, 0, 1, 0xff];
    for (let step = 0; step < 20_000; step++) {
      const message: Fields = {
        context: random(2),
        tagLo: random(step < 10_000 ? 4 : 300) - 1, // few tags keep the queues short, many make them long enough for bins
        tagHi: random(2) - 1,
        maskLo: -1,
        maskHi: -1,
        source: random(3),
        value: step,
      };
      if (random(2) === 0) {
        const found = posted.find(message.context, message.tagLo, message.tagHi, message.source);
        const at = postedModel.findIndex((receive) => fits(receive, message));
        assert.equal(found === posted.end ? undefined : found.value, postedModel[at]?.value);
        if (found !== posted.end) {
          posted.remove(found);
          postedModel.splice(at, 1);
        } else {
          unexpected.keep(message.context, message.tagLo, message.tagHi, message.source, message.value);
          unexpectedModel.push(message);
        }
      } else {
        const receive = {
          ...message,
          maskLo: masks[random(masks.length)],
          maskHi: masks[random(masks.length)],
          source: random(4) - 1,
        };
        const { context, tagLo, tagHi, maskLo, maskHi, source } = receive;
        const found = unexpected.find(context, tagLo, tagHi, maskLo, maskHi, source);
        const at = unexpectedModel.findIndex((candidate) => fits(receive, candidate));
        assert.equal(found?.kept, unexpectedModel[at]?.value);
        if (found !== undefined) {
          unexpected.take(found);
          unexpectedModel.splice(at, 1);
        } else {
          posted.add(entry(receive));
          postedModel.push(receive);
        }
      }
      assert.equal(posted.count, postedModel.length);
      assert.equal(unexpected.count, unexpectedModel.length);
    }
  });

  it('finds an exact receive among many thousands without walking them', () => {
    const posted = new PostedReceives(new Entry());
    for (let tag = 0; tag < 50_000; tag++) posted.add(entry({ tagLo: tag, value: tag }));
    // Each find would take 50,000 steps in a list; the whole loop would take minutes.
    for (let tag = 49_999; tag >= 0; tag--) {
      const found = posted.find(0, tag, 0, 3);
      assert.equal(found.value, tag);
      posted.remove(found);
    }
    assert.equal(posted.count, 0);
  });

  it('does not give a message of one context to a wildcard of another', () => {
    const posted = new PostedReceives(new Entry());
    posted.add(entry({ maskLo: 0, maskHi: 0 }));
    assert.equal(posted.find(1, 7, 0, 0), posted.end);
    assert.notEqual(posted.find(0, 7, 0, 0), posted.end);
  });
});
