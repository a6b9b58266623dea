import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { describe, it } from 'node:test';
import { failureWords, systemErrorWords } from './system-error.js';

function thrownBy(action: () => unknown): unknown {
  try {
    action();
  } catch (error) {
    return error;
  }
  return undefined;
}

describe('Errors of the system', () => {
  it('say what was tried, where, and what is the matter', () => {
    const words = (path: string) => systemErrorWords(thrownBy(() => writeFileSync(path, 'x')));
    assert.equal(words('/nowhere/x.svg'), 'cannot open /nowhere/x.svg: there is no such file or folder (ENOENT)');
    assert.equal(words('/tmp'), 'cannot open /tmp: that is a folder: name a file (EISDIR)');
    assert.equal(words('/dev/full'), 'cannot write: the disk is full (ENOSPC)');
  });

  it('name the port that is taken', async () => {
    const first = createServer();
    await new Promise<void>((resolve) => first.listen(0, '127.0.0.1', resolve));
    const { port } = first.address() as { port: number };
    const error = await new Promise((resolve) => createServer().on('error', resolve).listen(port, '127.0.0.1'));
    assert.equal(systemErrorWords(error), `cannot listen 127.0.0.1:${port}: another process listens there (EADDRINUSE)`);
    first.close();
  });

  it('of a process are one sentence where the cause is known, and a stack where it is not', () => {
    assert.equal(failureWords(Object.assign(new Error('rank 3 died'), { code: 'LAUNCH_RANK_LOST' })), 'rank 3 died');
    assert.match(failureWords(thrownBy(() => writeFileSync('/dev/full', 'x'))), /^cannot write: the disk is full/);
    assert.match(failureWords(new TypeError('x is not a function')), /TypeError: x is not a function\n +at /);
  });

  it('are not made of other errors', () => {
    assert.equal(systemErrorWords(new Error('open')), undefined);
    assert.equal(systemErrorWords(Object.assign(new Error('x'), { code: 'USAGE' })), undefined);
  });
});
