import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { LINK_COSTS } from './costs.js';
import { explainSelection } from './explanation.js';
import type { Abilities, Costs } from './protocol.js';
import { PROTOCOLS, protocolAt, select } from './selection.js';

const nic: Abilities = {
  shortBytes: 128,
  eagerBytes: 1 << 20,
  directRing: false,
  read: true,
  write: true,
  lanes: 1,
  fragmentBytes: 512 << 10,
  contiguous: true,
};
const mapped: Abilities = { ...nic, shortBytes: 40, eagerBytes: 64 << 10, directRing: true };

const table = (costs: Costs, abilities: Abilities) =>
  select(costs, abilities).ranges.map((range) => `${range.fromBytes} ${range.protocol}`);

/** From this size on the message goes by rendezvous. */
const threshold = (costs: Costs, abilities: Abilities) =>
  select(costs, abilities).ranges.find((range) => range.protocol.startsWith('rndv'))?.fromBytes;

describe('protocol selection', () => {
  it('puts the eager/rendezvous threshold of EDR at 29 KB with the older copy speed and at 44 KB with the newer', () => {
    assert.equal(threshold(LINK_COSTS['edr'], nic), 29_379);
    assert.equal(threshold({ ...LINK_COSTS['edr'], copyBytesPerSecond: 7000 * 2 ** 20 }, nic), 43_897);
  });

  it('gives the same tables for the same invented devices', () => {
    const golden: Record<string, [Costs, Abilities, string[]]> = {
      edr: [LINK_COSTS['edr'], nic, ['0 eager-short', '129 eager-bcopy', '183 eager-zcopy', '29379 rndv-get']],
      hdr: [LINK_COSTS['hdr'], nic, ['0 eager-short', '129 eager-bcopy', '183 eager-zcopy', '20059 rndv-get']],
      ndr: [LINK_COSTS['ndr'], nic, ['0 eager-short', '129 eager-bcopy', '183 eager-zcopy', '17387 rndv-get']],
      // The wire is slower than the copy: the copy hides behind it, and rendezvous wins only by its 1 %.
      'ethernet-10': [
        LINK_COSTS['ethernet-10'],
        nic,
        ['0 eager-short', '129 eager-bcopy', '183 eager-zcopy', '1048577 rndv-get'],
      ],
      'edr, two lanes': [
        LINK_COSTS['edr'],
        { ...nic, lanes: 2 },
        ['0 eager-short', '129 eager-bcopy', '183 eager-zcopy', '29379 rndv-get', '524288 rndv-pipeline'],
      ],
      shm: [LINK_COSTS['shm'], mapped, ['0 eager-short', '41 eager-bcopy', '8185 rndv-get']],
      'shm, memory in pieces': [
        LINK_COSTS['shm'],
        { ...mapped, contiguous: false },
        ['0 eager-short', '41 eager-bcopy', '65537 rndv-am'],
      ],
    };
    for (const [name, [costs, abilities, expected]] of Object.entries(golden)) {
      assert.deepEqual(table(costs, abilities), expected, name);
    }
  });

  it('moves the threshold up many times when registrations are not kept', () => {
    const cold = { ...LINK_COSTS['hdr'], registrationNs: 16_000, registrationNsPerByte: 0.06 };
    const cached = threshold(LINK_COSTS['hdr'], nic) as number;
    assert.ok((threshold(cold, nic) as number) > 5 * cached);
  });

  it('uses a forced protocol wherever it can carry the size, and says so', () => {
    const selection = select(LINK_COSTS['shm'], mapped, { protocol: 'rndv-put' });
    assert.deepEqual(
      selection.ranges.map((range) => [range.fromBytes, range.protocol]),
      [
        [0, 'eager-short'],
        [1, 'rndv-put'],
      ],
    );
    const explanation = explainSelection('tag', 100, LINK_COSTS['shm'], selection, 'rndv-put');
    assert.equal(explanation.protocol, 'rndv-put');
    assert.equal(explanation.candidates.find((candidate) => candidate.chosen)?.reason, 'it was asked for');
  });

  it('obeys a forced threshold, up to what eager can carry', () => {
    const at = (bytes: number, rendezvousBytes: number) =>
      protocolAt(select(LINK_COSTS['shm'], mapped, { rendezvousBytes }).ranges, bytes);
    assert.equal(at(999, 1000), 'eager-bcopy');
    assert.equal(at(1000, 1000), 'rndv-get');
    assert.equal(at(65_536, 1e9), 'eager-bcopy');
    assert.equal(at(65_537, 1e9), 'rndv-get');
  });

  it('refuses to force what the device lacks or nobody knows', () => {
    assert.throws(() => select(LINK_COSTS['shm'], mapped, { protocol: 'eager-zcopy' }), /mapped and written by the CPU/);
    assert.throws(() => select(LINK_COSTS['shm'], mapped, { protocol: 'carrier-pigeon' as never }), /there is no protocol/);
  });

  it('explains every candidate', () => {
    const selection = select(LINK_COSTS['edr'], nic);
    const explanation = explainSelection('tag', 65_536, LINK_COSTS['edr'], selection);
    assert.equal(explanation.protocol, 'rndv-get');
    assert.equal(explanation.candidates.length, PROTOCOLS.length);
    for (const candidate of explanation.candidates) assert.notEqual(candidate.reason, '', candidate.protocol);
    assert.match(explanation.candidates[0].reason, /at most 128 bytes/);
    assert.match(explanation.candidates[4].reason, /ns more/);
  });
});
