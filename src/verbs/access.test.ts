/** Access rights: libibverbs' bits, the implied right, and the words. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Access, accessBits, accessWords } from './access.js';

/** IBV_ACCESS_* of libibverbs. */
const BITS: readonly [right: keyof Access, bit: number, words: string][] = [
  ['localWrite', 1 << 0, 'local write'],
  ['remoteWrite', 1 << 1, 'remote write'],
  ['remoteRead', 1 << 2, 'remote read'],
  ['remoteAtomic', 1 << 3, 'remote atomic'],
  ['onDemand', 1 << 6, 'on demand'],
];

describe('access rights', () => {
  for (const [right, bit, words] of BITS) {
    it(`${right} is the bit of libibverbs and has words`, () => {
      assert.equal(accessBits({ [right]: true }) & bit, bit);
      assert.equal(accessBits({ [right]: false }), 0);
      assert.match(accessWords(bit), new RegExp(words));
    });
  }

  it('remote write and remote atomic imply local write; remote read does not', () => {
    assert.equal(accessBits({ remoteWrite: true }), 2 | 1);
    assert.equal(accessBits({ remoteAtomic: true }), 8 | 1);
    assert.equal(accessBits({ remoteRead: true }), 4);
  });

  it('nothing is local read only', () => {
    assert.equal(accessBits({}), 0);
    assert.equal(accessWords(0), 'local read only');
  });

  it('an unknown right is refused with the list of the known ones', () => {
    assert.throws(() => accessBits({ write: true } as Access), /unknown access right 'write'.*remoteWrite/);
  });

  it('several rights read as a list', () => {
    assert.equal(accessWords(accessBits({ remoteRead: true, remoteWrite: true })), 'local write, remote write, remote read');
  });
});
