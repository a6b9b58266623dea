/** Errors of verbs calls: a stable code, what went wrong in a chain, and a brand that crosses copies of the package. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { VerbsError } from './errors.js';

describe('VerbsError', () => {
  it('carries code, message, cause, index and private data', () => {
    const cause = new Error('below');
    const error = new VerbsError('VERBS_REFUSED', 'no', { cause, badIndex: 2, privateData: Uint8Array.of(7) });
    assert.equal(error.code, 'VERBS_REFUSED');
    assert.equal(error.name, 'VerbsError');
    assert.equal(error.message, 'no');
    assert.equal(error.cause, cause);
    assert.equal(error.badIndex, 2);
    assert.deepEqual(error.privateData, Uint8Array.of(7));
    assert.ok(error instanceof Error);
  });

  it('is recognised by its brand, also when another copy of the package made it', () => {
    assert.equal(VerbsError.is(new VerbsError('VERBS_BUSY', '')), true);
    assert.equal(VerbsError.is({ [Symbol.for('verbena.VerbsError')]: true }), true);
    for (const other of [new Error(''), null, undefined, 'VERBS_BUSY', { code: 'VERBS_BUSY' }]) {
      assert.equal(VerbsError.is(other), false);
    }
  });
});
