import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { decodeAddress, decodeHello, encodeAddress, encodeHello, type Hello } from './hello.js';

const hello: Hello = {
  mapped: true,
  lanes: 2,
  lane: 1,
  path: 1,
  paths: 2,
  rail: 3,
  slots: 256,
  bulkBytes: 65_536,
  joins: 7,
  token: 0xfffffffe,
  ringAddress: 0x7fff_1234_5678,
  ringKey: 0x80000001,
  mailboxAddress: 64,
  mailboxKey: 2,
  creditsAddress: 128,
  creditsKey: 3,
  workerId: '00112233445566ff',
  service: 'w/0011',
  label: 'träger (process 1)',
};

describe('hello and address', () => {
  it('come back as they were', () => {
    assert.deepEqual(decodeHello(encodeHello(hello)), hello);
    const address = {
      workerId: '0000000000000001',
      host: '00112233445566ff',
      devices: [
        { provider: 'shm', target: 'w/1' },
        { provider: 'roce', target: '[fe80::1]:4791/w/1' },
      ],
    };
    assert.deepEqual(decodeAddress(encodeAddress(address)), address);
  });

  it('fit the private data of a connection request', () => {
    assert.ok(encodeHello({ ...hello, label: 'x'.repeat(500), service: 'y'.repeat(70) }).length <= 196);
  });

  it('carry the version in the first byte, and another version is refused by name', () => {
    const bytes = encodeHello(hello);
    bytes[0] = 9;
    assert.throws(() => decodeHello(bytes), /version 9, this side speaks 2/);
    assert.throws(() => decodeAddress(new Uint8Array([1, 0, 0])), /version 1/);
    assert.throws(() => decodeAddress(new Uint8Array([2, 1, 0])), /no worker address/);
  });
});
