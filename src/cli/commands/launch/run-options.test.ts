import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { UsageError } from '../../command.js';
import { forwarded, parseHosts, parseRestart, parseVariables, parseVirtualHosts, sizeOf } from './run-options.js';

describe('the options of verbena run', () => {
  it('--restart is never or a number of times', () => {
    assert.equal(parseRestart('never'), 0);
    assert.equal(parseRestart('on-failure:3'), 3);
    assert.throws(() => parseRestart('always'), UsageError);
  });

  it('--virtual-hosts is a product or a list', () => {
    assert.deepEqual(parseVirtualHosts('2x3'), [3, 3]);
    assert.deepEqual(parseVirtualHosts('3,1'), [3, 1]);
    for (const bad of ['2x', '0x2', '2x0', 'a', '']) assert.throws(() => parseVirtualHosts(bad), UsageError, bad);
  });

  it('--env takes names and values, with = and commas in the value', () => {
    assert.deepEqual(parseVariables(['A=1', 'B=x=y', 'LIST=1', '2', '3']), { A: '1', B: 'x=y', LIST: '1,2,3' });
    assert.throws(() => parseVariables(['A']), UsageError);
  });

  it('--hosts names hosts and their ranks', () => {
    assert.deepEqual(parseHosts(['a:2', 'me@b']), [
      { name: 'a', ranks: 2 },
      { name: 'me@b', ranks: 1 },
    ]);
    for (const bad of ['a:0', 'a:x', ':2', '-oProxyCommand=x', 'a b']) assert.throws(() => parseHosts([bad]), UsageError, bad);
  });

  it('other hosts get our variables, and never the secret', () => {
    const env = { VERBENA_STALL_MS: '5', VERBENA_SECRET: 'x', VERBENA_SSH: 'ssh', HOME: '/root', NODE_OPTIONS: '--trace-gc' };
    assert.deepEqual(forwarded(env), { VERBENA_STALL_MS: '5', NODE_OPTIONS: '--trace-gc' });
  });

  it('-n and the hosts must agree', () => {
    assert.equal(sizeOf(undefined, [2, 2]), 4);
    assert.equal(sizeOf(4, [2, 2]), 4);
    assert.equal(sizeOf(3, undefined), 3);
    assert.equal(sizeOf(undefined, undefined), 1);
    assert.throws(() => sizeOf(3, [2, 2]), /-n 3.*4 ranks/);
  });
});
