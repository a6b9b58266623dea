import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Member } from './member.js';
import { deviceFor, explainSelection, selectProvider, selectProviders } from './selector.js';

const member = (rank: number, machine: string, given: Partial<Member> & { virtual?: number } = {}): Member => {
  const { virtual, ...rest } = given;
  const id = virtual === undefined ? machine : `${machine}/${virtual}`;
  const host = virtual === undefined ? { id, machine, name: machine } : { id, machine, name: id, virtual };
  return {
    rank,
    host,
    pid: 1,
    startTime: 1,
    numa: 0,
    nics: [],
    addresses: [{ interface: 'eth0', address: '10.0.0.1' }],
    node: 'v20',
    ...rest,
  };
};
const EVERYTHING = new Map([
  ['shm', undefined],
  ['roce', undefined],
  ['ibverbs', undefined],
]);
const SHM_ONLY = new Map([['shm', undefined]]);
const nics = [{ name: 'mlx5_0', numa: 0 }];

describe('the provider of a pair', () => {
  it('is shared memory inside a host, even where a NIC is there', () => {
    const pair = { from: member(0, 'a', { nics }), to: member(1, 'a', { nics }) };
    const selection = selectProvider(pair, EVERYTHING);
    assert.equal(selection.provider, 'shm');
    assert.equal(
      explainSelection(pair, selection),
      [
        'rank 0 (a) to rank 1 (a): shm',
        '  * shm: lowest latency of those that fit',
        '    ibverbs: shm is faster: 0.15 us against 2 us',
        '    roce: shm is faster: 0.15 us against 20 us',
        '    shm between virtual hosts: only for virtual hosts of one machine, where nothing else joins them',
      ].join('\n'),
    );
  });

  it('is the NIC between hosts that have one, otherwise RoCE in user space', () => {
    assert.equal(
      selectProvider({ from: member(0, 'a', { nics }), to: member(1, 'b', { nics }) }, EVERYTHING).provider,
      'ibverbs',
    );
    const mixed = selectProvider({ from: member(0, 'a', { nics }), to: member(1, 'b') }, EVERYTHING);
    assert.equal(mixed.provider, 'roce');
    assert.match(
      mixed.verdicts.find(({ provider }) => provider === 'ibverbs')?.why ?? '',
      /no RDMA device on the host of rank 1/,
    );
  });

  it('is nothing between hosts where only shared memory works, and says why', () => {
    const pair = { from: member(0, 'a'), to: member(1, 'b') };
    const selection = selectProvider(pair, SHM_ONLY);
    assert.equal(selection.provider, undefined);
    assert.match(
      explainSelection(pair, selection),
      /nothing joins them[\s\S]*shm: they do not share a host[\s\S]*roce: not part of this version/,
    );
  });

  it('is opened on the interface that was chosen for the host', () => {
    assert.equal(deviceFor('roce', member(0, 'a')), 'roce:10.0.0.1');
    assert.equal(deviceFor('shm', member(0, 'a')), 'shm');
  });

  it('makes the list of devices that a rank opens, the fastest first', () => {
    const hosts = [member(0, 'a'), member(1, 'a'), member(2, 'b')];
    assert.deepEqual(selectProviders(0, hosts, EVERYTHING), ['shm', 'roce']);
    assert.deepEqual(selectProviders(2, hosts, EVERYTHING), ['roce']);
    assert.deepEqual(selectProviders(0, hosts.slice(0, 2), EVERYTHING), ['shm']);
    assert.deepEqual(selectProviders(0, hosts.slice(0, 1), EVERYTHING), ['shm']);
    const virtual = [member(0, 'a', { virtual: 0 }), member(1, 'a', { virtual: 0 }), member(2, 'a', { virtual: 1 })];
    assert.deepEqual(selectProviders(0, virtual, EVERYTHING), ['shm', 'roce']);
    assert.deepEqual(selectProviders(0, virtual, SHM_ONLY), ['shm']);
    assert.throws(
      () => selectProviders(0, hosts, SHM_ONLY),
      /no provider joins all ranks.*rank 0 \(a\) to rank 2 \(b\): nothing joins them/,
    );
  });

  it('between virtual hosts is the network where there is one, otherwise the memory they really share', () => {
    const pair = { from: member(0, 'a', { virtual: 0 }), to: member(1, 'a', { virtual: 1 }) };
    assert.equal(selectProvider(pair, EVERYTHING).provider, 'roce');
    const alone = selectProvider(pair, SHM_ONLY);
    assert.equal(alone.provider, 'shm');
    assert.equal(alone.verdicts.find(({ chosen }) => chosen)?.use, 'between virtual hosts');
    assert.equal(selectProvider({ from: pair.from, to: member(1, 'a', { virtual: 0 }) }, EVERYTHING).provider, 'shm');
  });
});
