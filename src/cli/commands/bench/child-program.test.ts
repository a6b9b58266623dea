import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { findProgram, pinned } from './child-program.js';

describe('Child programs', () => {
  it('are found on the path given', () => {
    assert.match(findProgram('sh') ?? '', /\/sh$/);
    assert.equal(findProgram('sh', '/nonexistent'), undefined);
    assert.equal(findProgram('no-such-program-anywhere'), undefined);
  });

  it('are pinned with taskset where there is one', () => {
    const words = pinned([1, 1, 0], ['node', 'x.js']);
    if (findProgram('taskset')) assert.deepEqual(words, ['taskset', '-c', '1,0', 'node', 'x.js']);
    else assert.deepEqual(words, ['node', 'x.js']);
  });
});
