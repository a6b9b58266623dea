import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { loadAddon } from '../../../native/load.js';
import { VerbsError } from '../../errors.js';
import { Directory } from './directory.js';

describe('names of listeners', () => {
  const folder = mkdtempSync(join(tmpdir(), 'verbena-directory-'));
  const directory = new Directory(loadAddon(), join(folder, 'names'));
  const av = { gid: '::ffff:127.0.0.1', port: 5000 };
  after(() => rmSync(folder, { recursive: true }));

  it('are found until they are removed, and taken once', () => {
    directory.add('a/b c', av);
    assert.deepEqual(directory.find('a/b c'), av);
    assert.throws(
      () => directory.add('a/b c', av),
      (error) => VerbsError.is(error) && error.code === 'VERBS_BUSY',
    );
    assert.equal(directory.find('a'), undefined);
    directory.remove('a/b c');
    assert.equal(directory.find('a/b c'), undefined);
    directory.add('a/b c', av);
    directory.remove('a/b c');
  });

  it('of a process that is gone are free', () => {
    directory.add('ghost', av);
    const [file] = readdirSync(join(folder, 'names')).map((name) => join(folder, 'names', name));
    const entry = JSON.parse(readFileSync(file, 'utf8')) as { startTime: number };
    writeFileSync(file, JSON.stringify({ ...entry, startTime: entry.startTime + 1 }));
    assert.equal(directory.find('ghost'), undefined);
    directory.add('ghost', av);
    assert.deepEqual(directory.find('ghost'), av);
    directory.remove('ghost');
  });
});
