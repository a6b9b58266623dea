import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { askedEngine, type EngineVerdict, selectEngine } from './engine.js';
import { choicesOf, explainChoices } from './explanation.js';
import type { Member } from './member.js';
import { deviceFor, explainSelection, selectProvider, selectProviders } from './selector.js';

const member = (rank: number, machine: string, given: Partial<Member> & { virtual?: number } = {}): Member => {
  const { virtual, ...rest } = given;
  const id = virtual === undefined ? machine : `${machine}/${virtual}`;
  const boot = machine.split('/')[0];
  const host = virtual === undefined ? { id, machine, boot, name: machine } : { id, machine, boot, name: id, virtual };
  return {
    rank,
    host,
    pid: 1,
    startTime: 1,
    numa: 0,
    nics: [],
    addresses: [{ interface: 'eth0', address: '10.0.0.1' }],
    engine: 'auto',
    node: 'v20',
    ...rest,
  };
};
const EVERYTHING = new Map<string, string | undefined>([
  ['shm', undefined],
  ['roce', undefined],
  ['ibverbs', undefined],
]);
const NO_LIBRARY = new Map([...EVERYTHING, ['ibverbs', 'apt-get install libibverbs-dev']]);
const SHM_ONLY = new Map([['shm', undefined]]);
const nics = [{ name: 'mlx5_0', numa: 0, active: true }];

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
    assert.deepEqual(selectProviders(0, hosts, EVERYTHING).providers, ['shm', 'roce']);
    assert.deepEqual(selectProviders(2, hosts, EVERYTHING).providers, ['roce']);
    assert.deepEqual(selectProviders(0, hosts.slice(0, 2), EVERYTHING).providers, ['shm']);
    assert.deepEqual(selectProviders(0, hosts.slice(0, 1), EVERYTHING).providers, ['shm']);
    const virtual = [member(0, 'a', { virtual: 0 }), member(1, 'a', { virtual: 0 }), member(2, 'a', { virtual: 1 })];
    assert.deepEqual(selectProviders(0, virtual, EVERYTHING).providers, ['shm', 'roce']);
    assert.deepEqual(selectProviders(0, virtual, SHM_ONLY).providers, ['shm']);
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

  it('to other hosts every network that fits is opened, because one of them may lack what this one has', () => {
    const hosts = [member(0, 'a', { nics }), member(1, 'b', { nics })];
    assert.deepEqual(selectProviders(0, hosts, EVERYTHING).providers, ['ibverbs', 'roce']);
    assert.deepEqual(selectProviders(1, hosts, NO_LIBRARY).providers, ['roce']);
  });
});

describe('a fallback', () => {
  it('is silent where nothing better was to be expected', () => {
    for (const to of [member(1, 'a'), member(1, 'b'), member(1, 'b', { nics })]) {
      assert.equal(selectProvider({ from: member(0, 'a'), to }, EVERYTHING).fallback, undefined);
    }
  });

  it('from a NIC says that it is there, what is missing and how to get it', () => {
    const pair = { from: member(0, 'a', { nics }), to: member(1, 'b', { nics }) };
    const { provider, fallback } = selectProvider(pair, NO_LIBRARY);
    assert.equal(provider, 'roce');
    assert.match(
      fallback ?? '',
      /rank 0 .* to rank 1 .* goes by roce, about 20 us .* instead of ibverbs, 2 us: apt-get install libibverbs-dev/,
    );
    const down = { from: pair.from, to: member(1, 'b', { nics: [{ name: 'mlx5_0', numa: 0, active: false }] }) };
    assert.match(
      selectProvider(down, EVERYTHING).fallback ?? '',
      /instead of ibverbs.*no port of an RDMA device is active on the host of rank 1: verbena doctor/,
    );
  });

  it('from shared memory between containers of one machine says how to share it', () => {
    const { provider, fallback } = selectProvider({ from: member(0, 'a/c1'), to: member(1, 'a/c2') }, EVERYTHING);
    assert.equal(provider, 'roce');
    assert.match(fallback ?? '', /instead of shm.*not the process namespace or the user.*--pid=container/);
  });

  it('from the network between virtual hosts says that there is none', () => {
    const pair = { from: member(0, 'a', { virtual: 0, addresses: [] }), to: member(1, 'a', { virtual: 1 }) };
    const { provider, fallback } = selectProvider(pair, EVERYTHING);
    assert.equal(provider, 'shm');
    assert.match(fallback ?? '', /goes by shm.*instead of roce.*host of rank 0 has no network address/);
  });
});

describe('the engine of a world', () => {
  const told = (...engines: Member['engine'][]) => engines.map((engine, rank) => ({ rank, engine }));
  const chosen = (verdicts: readonly EngineVerdict[]) => verdicts.filter((verdict) => verdict.chosen).map(({ engine }) => engine);

  it('is verbs unless UCX is asked for, with a reason for both', () => {
    assert.deepEqual(chosen(selectEngine(told('auto', 'auto'))), ['verbs']);
    assert.deepEqual(chosen(selectEngine(told('ucx', 'ucx'))), ['ucx']);
    assert.deepEqual(chosen(selectEngine(told('verbs'))), ['verbs']);
    for (const { why } of selectEngine(told('auto'))) assert.ok(why.length > 10);
  });

  it('is explained with the pairs that its providers join, which UCX does not have', () => {
    const world = (engine: Member['engine']) => [0, 1].map((rank) => ({ ...member(rank, 'a'), engine }));
    const words = (engine: Member['engine']) => explainChoices(choicesOf(0, world(engine), EVERYTHING, undefined));
    assert.match(words('auto'), /^engine: verbs\n.*\n.*\nrank 0 .* to rank 1 .*: shm\n/);
    assert.match(words('ucx'), /^engine: ucx\n.*\n {2}\* ucx: asked for; endpoint\.explain.*\naddresses/);
  });

  it('is one for all ranks', () => {
    assert.throws(
      () => selectEngine(told('auto', 'ucx', 'ucx')),
      /rank 0 was told VERBENA_ENGINE=auto, ranks 1, 2 ucx: set it for all/,
    );
    assert.throws(() => askedEngine('mpi'), /VERBENA_ENGINE is 'mpi': use verbs, ucx or auto/);
  });
});
