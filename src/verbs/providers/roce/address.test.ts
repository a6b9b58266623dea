import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { VerbsError } from '../../errors.js';
import { answerPort, endOf, localAddress, ROCE_PORT } from './address.js';

describe('addresses of RoCE devices', () => {
  it('a GID names an IPv4 address in mapped form, however it is spelled', () => {
    for (const gid of ['::ffff:10.0.0.1', '::ffff:a00:1', '0000:0000:0000:0000:0000:ffff:0a00:0001']) {
      assert.deepEqual(endOf({ gid }), { address: Uint8Array.of(10, 0, 0, 1), port: ROCE_PORT });
    }
    assert.equal(endOf({ gid: 'fd00::1', port: 5000 }).port, 5000);
    for (const av of [{ gid: 'nonsense' }, { gid: '::1', port: 0 }, {} as { gid: string }]) {
      assert.throws(
        () => endOf(av),
        (error) => VerbsError.is(error) && error.code === 'VERBS_INVALID',
      );
    }
  });

  it('answers go to the port that a device sends from, or to 4791 when it is one that spreads flows', () => {
    assert.equal(answerPort(4791), 4791);
    assert.equal(answerPort(20_000), 20_000);
    assert.equal(answerPort(0xc123), ROCE_PORT);
  });

  it('a device is named by interface, address and port', () => {
    assert.deepEqual(localAddress(undefined), { network: '', host: '127.0.0.1', port: 0, mtu: 4096 });
    assert.deepEqual(localAddress('lo'), localAddress(undefined));
    assert.equal(localAddress('127.0.0.1:5000').port, 5000);
    assert.equal(localAddress('127.3.4.5').host, '127.3.4.5');
    assert.deepEqual(localAddress('blue/10.0.0.1:6000'), { network: '/run/netns/blue', host: '10.0.0.1', port: 6000, mtu: 1024 });
    assert.throws(
      () => localAddress('nowhere0'),
      (error) => VerbsError.is(error) && error.code === 'VERBS_NO_DEVICE',
    );
    assert.throws(
      () => localAddress('127.0.0.1:60000'),
      (error) => VerbsError.is(error) && error.code === 'VERBS_INVALID',
    );
  });
});
