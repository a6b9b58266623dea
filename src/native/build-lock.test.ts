import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { withBuildLock } from './build-lock.js';

describe('the build lock', () => {
  let dir: string;
  let lockFile: string;
  const never = () => undefined;

  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'verbena-lock-'));
    lockFile = join(dir, 'lock');
  });
  afterEach(() => rmSync(dir, { recursive: true }));

  it('names its holder while the body runs, and leaves nothing behind', () => {
    const holder = withBuildLock(lockFile, never, () => readFileSync(lockFile, 'utf8'));
    assert.match(holder, new RegExp(`^${process.pid} \\d+$`));
    assert.deepEqual(readdirSync(dir), []);
  });

  it('is released when the body throws', () => {
    const fail = () => {
      throw new Error('no');
    };
    assert.throws(() => withBuildLock(lockFile, never, fail), /no/);
    assert.deepEqual(readdirSync(dir), []);
  });

  it('does not run the body when the work is done already', () => {
    const result = withBuildLock<string>(
      lockFile,
      () => 'done',
      () => assert.fail('ran'),
    );
    assert.equal(result, 'done');
  });

  it('is taken over from a process that is gone', () => {
    const { pid } = spawnSync('true');
    writeFileSync(lockFile, `${pid} 1`);
    const start = performance.now();
    assert.equal(
      withBuildLock(lockFile, never, () => 'mine'),
      'mine',
    );
    assert.ok(performance.now() - start < 5_000);
    assert.deepEqual(readdirSync(dir), []);
  });

  it('is taken over from a pid that now belongs to another process', () => {
    writeFileSync(lockFile, `${process.pid} 1`);
    assert.equal(
      withBuildLock(lockFile, never, () => 'mine'),
      'mine',
    );
  });

  it('waits for a living holder until the result is there', () => {
    withBuildLock(lockFile, never, () => {
      let asked = 0;
      const result = withBuildLock<number>(
        lockFile,
        () => (++asked === 3 ? asked : undefined),
        () => assert.fail('ran beside the holder'),
      );
      assert.equal(result, 3);
    });
  });

  it('stops waiting after the given time and does the work itself', () => {
    withBuildLock(lockFile, never, () => {
      assert.equal(
        withBuildLock(lockFile, never, () => 'anyway', 50),
        'anyway',
      );
    });
  });

  it('throws when the directory cannot be written', () => {
    assert.throws(() => withBuildLock(join(dir, 'absent', 'lock'), never, () => 1), { code: 'ENOENT' });
  });
});
