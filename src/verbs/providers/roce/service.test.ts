import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { VerbsError } from '../../errors.js';
import { serviceIdOf } from '../../transport/cm-ip.js';
import { answerData, answerDataOf, parseTarget, requestData, requestDataOf, serviceOf } from './service.js';

const HERE = { address: Uint8Array.of(10, 0, 0, 1), port: 4791 };
const THERE = { address: Uint8Array.of(10, 0, 0, 2), port: 4791 };

describe('services of connection management', () => {
  it('a number is a port of librdmacm, anything else a name with an id of its own', () => {
    assert.equal(serviceOf('7174'), serviceIdOf(7174));
    assert.equal(serviceOf('greeter'), serviceOf('greeter'));
    assert.equal(serviceOf('greeter') >> 56n, 0x56n);
    assert.equal(new Set(['greeter', 'greeter2', '70000', '7174'].map(serviceOf)).size, 4);
  });

  it('a target is a host and a service, or a service alone', () => {
    assert.deepEqual(parseTarget('10.0.0.2/7174'), { end: THERE, service: '7174' });
    assert.deepEqual(parseTarget('10.0.0.2:5000/a/b'), { end: { ...THERE, port: 5000 }, service: 'a/b' });
    assert.equal(parseTarget('[fd00::2]:5000/x').end?.address.length, 16);
    assert.deepEqual(parseTarget('hello-read/4242'), { end: undefined, service: 'hello-read/4242' });
    assert.deepEqual(parseTarget('7174'), { end: undefined, service: '7174' });
  });

  it('private data of a name comes back with its length; that of a port padded, behind the header of librdmacm', () => {
    const data = Uint8Array.of(1, 2, 3);
    const name = serviceOf('greeter');
    const padded = new Uint8Array(92);
    padded.set(requestData(name, data, HERE, THERE));
    assert.deepEqual(requestDataOf(name, padded), data);
    assert.deepEqual(answerDataOf(name, answerData(name, data)), data);
    const port = serviceOf('7174');
    const wire = requestData(port, data, HERE, THERE);
    assert.equal(wire.length, 39);
    assert.deepEqual(requestDataOf(port, wire), data);
    assert.deepEqual(answerData(port, data), data);
  });

  it('too much private data is refused', () => {
    const invalid = (error: unknown) => VerbsError.is(error) && error.code === 'VERBS_INVALID';
    assert.throws(() => requestData(serviceOf('x'), new Uint8Array(197), HERE, THERE), invalid);
    assert.throws(() => requestData(serviceOf('1'), new Uint8Array(57), HERE, THERE), invalid);
    assert.throws(() => answerData(serviceOf('1'), new Uint8Array(197)), invalid);
  });
});
