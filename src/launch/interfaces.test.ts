import assert from 'node:assert/strict';
import type { NetworkInterfaceInfo } from 'node:os';
import { describe, it } from 'node:test';
import { explainAddresses, usableAddresses } from './interfaces.js';

const address = (text: string, internal = false) =>
  ({
    address: text,
    family: text.includes(':') ? 'IPv6' : 'IPv4',
    internal,
    netmask: '',
    mac: '',
    cidr: null,
  }) as NetworkInterfaceInfo;

const MACHINE = {
  lo: [address('127.0.0.1', true)],
  docker0: [address('172.17.0.1')],
  eth0: [address('10.1.0.5'), address('fe80::1'), address('fd00::5')],
  ib0: [address('10.9.0.5')],
};

describe('the address of a host', () => {
  it('is InfiniBand before Ethernet before container bridges, never loopback or link-local', () => {
    const usable = usableAddresses(explainAddresses(undefined, MACHINE)).map((one) => one.address);
    assert.deepEqual(usable, ['10.9.0.5', '10.1.0.5', 'fd00::5', '172.17.0.1']);
  });

  it('comes with a reason for every one that was looked at', () => {
    const why = new Map(explainAddresses(undefined, MACHINE).map((one) => [one.address, one.why]));
    assert.equal(why.size, 6);
    assert.match(why.get('127.0.0.1') ?? '', /loopback/);
    assert.match(why.get('172.17.0.1') ?? '', /containers/);
  });

  it('is the one that was asked for by name, address or prefix', () => {
    const chosen = (wanted: string) => usableAddresses(explainAddresses(wanted, MACHINE)).map((one) => one.address);
    assert.deepEqual(chosen('ib0'), ['10.9.0.5']);
    assert.deepEqual(chosen('10.1.0.0/16'), ['10.1.0.5']);
    assert.deepEqual(chosen('fd00::5'), ['fd00::5']);
  });

  it('that does not exist is an error with those that do', () => {
    assert.throws(() => explainAddresses('eth7', MACHINE), /no interface or address 'eth7'.*eth0 10\.1\.0\.5/);
    assert.throws(() => explainAddresses('10.1.0.0/99', MACHINE), /neither an interface nor a prefix/);
  });
});
