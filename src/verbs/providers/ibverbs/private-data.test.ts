import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { answerFrame, isPartTaken, PART_TAKEN, REPLY_BYTES, readAnswer, readPart, requestFrames } from './private-data.js';

const bytes = (length: number) => Uint8Array.from({ length }, (_, i) => i * 7);

describe('private data of rdma-cm', () => {
  it('is put together from as many requests as it takes, whatever the wire pads', () => {
    for (const length of [0, 1, 49, 50, 51, 100, 101, 196]) {
      const data = bytes(length);
      const frames = requestFrames(data, false);
      assert.equal(frames.length, Math.max(1, Math.ceil(length / 50)));
      const parts = frames.map((frame) => {
        assert.ok(frame.length <= 56);
        const padded = new Uint8Array(56);
        padded.set(frame);
        return readPart(padded);
      });
      assert.deepEqual(
        parts.map(({ isLast }) => isLast),
        parts.map((_, i) => i === parts.length - 1),
      );
      assert.equal(new Set(parts.map(({ sender }) => sender)).size, 1, 'one sender');
      assert.deepEqual(Uint8Array.from(parts.flatMap((part) => [...part.bytes])), data);
    }
  });

  it('goes to ports of others as it is, and is refused when it is too long', () => {
    assert.deepEqual(requestFrames(bytes(56), true), [bytes(56)]);
    assert.throws(() => requestFrames(bytes(57), true), { code: 'VERBS_INVALID' });
    assert.throws(() => requestFrames(bytes(197), false), { code: 'VERBS_INVALID' });
    assert.throws(() => answerFrame(bytes(196), REPLY_BYTES, false), { code: 'VERBS_INVALID' });
  });

  it('of an answer comes back without padding, and no answer is taken for a noted part', () => {
    for (const length of [0, 5, 195]) {
      const padded = new Uint8Array(196);
      padded.set(answerFrame(bytes(length), REPLY_BYTES, false));
      assert.deepEqual(readAnswer(padded, false), bytes(length));
      assert.equal(isPartTaken(padded), false);
    }
    assert.ok(isPartTaken(Uint8Array.of(...PART_TAKEN, 0, 0, 0)));
  });
});
