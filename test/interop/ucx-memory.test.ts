/** Where shared memory is short, as in a container, UCX's engine says so, where, how much is missing and what to do; and what it advises works. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const SPENDER = fileURLToPath(new URL('./ucx/spender.js', import.meta.url));
const mayMount = spawnSync('unshare', ['-m', 'mount', '-t', 'tmpfs', 'tmpfs', '/dev/shm']).status === 0;
const skip =
  (!existsSync('/usr/include/ucp/api/ucp.h') && 'needs apt-get install libucx-dev') ||
  (!mayMount && 'a small /dev/shm of its own needs root and unshare');

/** Runs the spender where /dev/shm has so many bytes. Its stdout is JSON alone: what UCX logs goes elsewhere. */
function spend(size: string, settings: Record<string, string>): Record<string, string> {
  const command = `mount -t tmpfs -o size=${size} tmpfs /dev/shm && mkdir /dev/shm/other && mount -t tmpfs -o size=64m tmpfs /dev/shm/other && exec "$@"`;
  const words = ['-m', 'sh', '-c', command, 'sh', process.execPath, SPENDER];
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const { stdout, stderr } = spawnSync('unshare', words, { encoding: 'utf8', env: { ...env, ...settings }, timeout: 60_000 });
  assert.notEqual(stdout, '', stderr);
  return JSON.parse(stdout) as Record<string, string>;
}

const SHORT =
  /^VERBS_NO_MEMORY: shared memory is short: .* \/dev\/shm has \d+\.\d of \d+\.\d MiB free.*remount,size.*--shm-size.*UCX_POSIX_DIR.*UCX_TLS=/;
const ALL_WORK = { context: 'works', 'first worker': 'works', 'second worker': 'works', memory: 'works', message: 'works' };

test('a /dev/shm that holds no worker, or one, or no memory, is VERBS_NO_MEMORY with words', { skip }, () => {
  const none = spend('1m', { UCX_TLS: 'posix,self' });
  assert.match(none['first worker'], SHORT);
  assert.match(none['first worker'], /a worker takes 4\.1 MiB/);
  assert.match(none['memory'], SHORT);
  assert.match(none['memory'], /this memory takes 4\.0 MiB/);
  const one = spend('6m', { UCX_TLS: 'posix,self' });
  assert.equal(one['first worker'], 'works');
  assert.match(one['second worker'], SHORT);
  assert.match(one['memory'], SHORT);
  assert.match(spend('1m', {})['first worker'], SHORT);
});

test('what the words advise works: more of it, another place, other transports', { skip }, () => {
  assert.deepEqual(spend('64m', {}), ALL_WORK);
  assert.deepEqual(spend('1m', { UCX_POSIX_DIR: '/dev/shm/other' }), ALL_WORK);
  assert.deepEqual(spend('1m', { UCX_TLS: 'sysv,cma,tcp,self' }), ALL_WORK);
});
