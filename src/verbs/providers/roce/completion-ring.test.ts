import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { WorkCompletions } from '../../work-completions.js';
import { CompletionRing, Due, Pushed } from './completion-ring.js';

function pair(depth: number): [producer: CompletionRing, consumer: CompletionRing] {
  const buffer = new SharedArrayBuffer(CompletionRing.byteLength(depth));
  return [new CompletionRing(depth, buffer), new CompletionRing(depth, buffer)];
}

const push = (ring: CompletionRing, id: number, status = 0, isSolicited = false): number =>
  ring.push(id, status, 2, 100 + id, 7, 17, 18, 1, 3, isSolicited);

describe('CompletionRing', () => {
  it('carries every field from one side to the other, in order, around the end many times', () => {
    const [producer, consumer] = pair(5);
    const wcs = new WorkCompletions(2);
    for (let id = 0; id < 1000; id += 2) {
      push(producer, id);
      push(producer, id + 1);
      for (let k = 0; k < 2; k++) {
        assert.equal(consumer.take(wcs, k), 3);
        assert.deepEqual(
          [wcs.id[k], wcs.status[k], wcs.opcode[k], wcs.byteLen[k], wcs.imm[k], wcs.qpNum[k], wcs.srcQp[k], wcs.flags[k]],
          [id + k, 0, 2, 100 + id + k, 7, 17, 18, 1],
        );
      }
      assert.equal(consumer.take(wcs, 0), -1);
      assert.ok(consumer.isEmpty);
    }
  });

  it('overruns at its depth, once and for ever', () => {
    const [producer, consumer] = pair(3);
    for (let id = 0; id < 3; id++) assert.equal(push(producer, id), Pushed.quietly);
    assert.equal(consumer.isOverrun, false);
    assert.equal(push(producer, 3), Pushed.overrun);
    assert.equal(push(producer, 4), Pushed.lost);
    assert.ok(consumer.isOverrun);
  });

  it('rings once when armed, for any completion or for solicited ones and errors', () => {
    const [producer, consumer] = pair(16);
    assert.equal(push(producer, 0), Pushed.quietly);
    consumer.arm(false);
    assert.equal(push(producer, 1), Pushed.ring);
    assert.equal(consumer.takeDue(), Due.event);
    assert.equal(consumer.takeDue(), Due.nothing);
    assert.equal(push(producer, 2), Pushed.quietly);
    consumer.arm(true);
    assert.equal(push(producer, 3), Pushed.quietly);
    assert.equal(push(producer, 4, 0, true), Pushed.ring);
    consumer.arm(true);
    assert.equal(push(producer, 5, 5), Pushed.ring);
  });

  it('waits for the count, and asks for the period to be waited for', () => {
    const [producer, consumer] = pair(16);
    consumer.moderate(3, 0);
    consumer.arm(false);
    assert.deepEqual([push(producer, 0), push(producer, 1), push(producer, 2)], [Pushed.quietly, Pushed.quietly, Pushed.ring]);
    consumer.takeDue();
    consumer.moderate(3, 500);
    consumer.arm(false);
    assert.equal(push(producer, 3), Pushed.ring);
    assert.equal(consumer.takeDue(), Due.period);
    assert.equal(push(producer, 4), Pushed.quietly);
    assert.equal(push(producer, 5), Pushed.ring);
    assert.equal(consumer.takeDue(), Due.event);
  });
});
