import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { BOARD_BYTES, ClaimBoard } from './claim-board.js';

describe('claim board', () => {
  it('gives every fragment to one side only: the front to the receiver, the back to the sender', () => {
    const memory = new Uint8Array(BOARD_BYTES);
    const receiver = new ClaimBoard(memory);
    const sender = new ClaimBoard(memory);
    const entry = receiver.open();
    const taken: number[] = [];
    taken.push(receiver.claim(entry, 5, false), sender.claim(entry, 5, true), receiver.claim(entry, 5, false));
    assert.deepEqual(taken, [0, 4, 1]);
    assert.equal(sender.claim(entry, 5, true), 3);
    assert.equal(sender.claim(entry, 5, true), 2);
    assert.equal(sender.claim(entry, 5, true), -1);
    assert.equal(receiver.claim(entry, 5, false), -1);
  });

  it('has a bound, and an entry that is given back starts anew', () => {
    const board = new ClaimBoard(new Uint8Array(BOARD_BYTES));
    const entries: number[] = [];
    for (let entry = board.open(); entry >= 0; entry = board.open()) entries.push(entry);
    assert.equal(new Set(entries).size, BOARD_BYTES / 64);
    board.claim(entries[3], 1, false);
    board.close(entries[3]);
    assert.equal(board.open(), entries[3]);
    assert.equal(board.claim(entries[3], 1, true), 0);
  });
});
