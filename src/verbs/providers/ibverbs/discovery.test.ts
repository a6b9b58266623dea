import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { choose, type DeviceInfo, type GidInfo, type PortInfo, renewed } from './discovery.js';

const LINK_LOCAL = 'fe800000000000000000000000000001';
const V4 = '00000000000000000000ffff0a000001';
const V6 = 'fd000000000000000000000000000001';
const gid = (index: number, type: number, bytes: string): GidInfo => ({ index, type, interface: 0, gid: bytes });

/** As a NIC with one address of each family lists them: RoCE v1 and v2 of each in turn. */
const ROCE_GIDS = [LINK_LOCAL, V6, V4].flatMap((bytes, i) => [gid(2 * i, 1, bytes), gid(2 * i + 1, 2, bytes)]);

function port(number: number, changes: Partial<PortInfo> = {}): PortInfo {
  const link = { maxMtu: 4096, activeMtu: 1024, lid: 0, smLid: 0, speed: 32, width: 2, maxMessage: 2 ** 30 };
  return { number, state: 4, linkLayer: 2, ...link, pkeys: [[0, 0xffff]], gids: ROCE_GIDS, ...changes };
}

function device(name: string, ports: readonly PortInfo[], changes: Partial<DeviceInfo> = {}): DeviceInfo {
  const limits = { maxQpWr: 1000, maxSge: 30, maxCqe: 1000, maxRd: 16, maxInitRd: 16, maxSrq: 1, maxSrqWr: 1000, maxSrqSge: 30 };
  const rest = { transport: 0, firmware: '', atomics: 1, maxMulticast: 0, onDemand: false, dc: false };
  return { name, ...limits, ...rest, ports, ...changes };
}

const infiniband = (pkeys: PortInfo['pkeys']): DeviceInfo =>
  device('mlx5_0', [port(1, { linkLayer: 1, lid: 7, pkeys, gids: [gid(0, 0, LINK_LOCAL), gid(1, 0, V6)] })]);

describe('the choice of an RDMA port', () => {
  it('takes RoCE v2 by IPv4 before IPv6, that before link-local, and v1 last', () => {
    const chosen = (gids: readonly GidInfo[]) => choose([device('mlx5_0', [port(1, { gids })])], undefined).gid.index;
    assert.equal(chosen(ROCE_GIDS), 5);
    assert.equal(chosen(ROCE_GIDS.slice(0, 5)), 3);
    assert.equal(chosen(ROCE_GIDS.slice(0, 3)), 1);
    assert.equal(chosen(ROCE_GIDS.slice(0, 1)), 0);
    assert.equal(chosen([...ROCE_GIDS, gid(7, 2, V4)]), 5, 'the first of equals');
  });

  it('takes the GID that is named', () => {
    const { gid: chosen, reasons } = choose([device('mlx5_0', [port(1)])], 'mlx5_0:1?gid=3');
    assert.equal(chosen.index, 3);
    assert.match(reasons[1], /you named it/);
  });

  it('keeps GID and partition where a port has changed, wherever they stand then', () => {
    const before = choose([device('mlx5_0', [port(1)])], 'mlx5_0');
    const after = (gids: readonly GidInfo[]) => renewed(before, port(1, { gids, pkeys: [[4, 0xffff]] }));
    assert.equal(after([gid(0, 2, V6), gid(8, 2, V4)]).gid.index, 8);
    assert.equal(after([gid(0, 2, LINK_LOCAL), gid(1, 2, V6)]).gid.index, 1, 'the best that is left');
    assert.equal(after([]).gid, before.gid, 'until there is another');
    assert.equal(after([]).pkeyIndex, 4);
    const asked = choose([device('mlx5_0', [port(1)])], 'mlx5_0?gid=3');
    assert.deepEqual(
      renewed(asked, port(1, { gids: [gid(3, 2, V4), gid(4, 2, V6)] })).gid,
      gid(3, 2, V4),
      'an index that was asked for',
    );
  });

  it('takes the fastest active port of all devices, and says so', () => {
    const slow = device('mlx5_0', [port(1, { speed: 16 })]);
    const fast = device('mlx5_1', [port(1, { speed: 128, state: 1 }), port(2, { speed: 64 })]);
    const { device: chosen, port: at, reasons } = choose([slow, fast], undefined);
    assert.deepEqual([chosen.name, at.number], ['mlx5_1', 2]);
    assert.match(reasons[0], /port 2 of mlx5_1: the fastest active port, 200 Gbit\/s, of 3/);
  });

  it('passes a port by that has no GID, when another has one', () => {
    const bare = device('mlx5_0', [port(1, { speed: 128, gids: [] })]);
    assert.equal(choose([bare, device('mlx5_1', [port(1)])], undefined).device.name, 'mlx5_1');
    assert.throws(() => choose([bare], undefined), /port 1 of mlx5_0 has no GID: give its interface an IP address/);
  });

  it('passes a device by that cannot be opened, and says why where it is the only one', () => {
    const locked = { name: 'mlx5_0', transport: 0, errno: 13 } as DeviceInfo;
    assert.equal(choose([locked, device('mlx5_1', [port(1)])], undefined).device.name, 'mlx5_1');
    assert.throws(() => choose([locked], undefined), /mlx5_0 cannot be opened \(errno 13: is \/dev\/infiniband there/);
  });

  it('names only the ports that were asked for, when none of them is active', () => {
    const two = [device('mlx5_0', [port(1, { state: 1 }), port(2)])];
    assert.throws(
      () => choose(two, 'mlx5_0:1'),
      (error: Error) => /port 1 of mlx5_0 is down/.test(error.message) && !/port 2/.test(error.message),
    );
  });

  it('is a full member of the default partition, else of another, else a limited one, and says which', () => {
    const key = (pkeys: PortInfo['pkeys'], name?: string) => {
      const { pkeyIndex, reasons } = choose([infiniband(pkeys)], name);
      return [pkeyIndex, reasons[2]];
    };
    const all = [
      [0, 0x7fff],
      [2, 0x8005],
      [4, 0xffff],
    ] as const;
    assert.deepEqual(key(all), [4, 'partition 0xffff: full member of the default partition']);
    assert.deepEqual(key(all.slice(0, 2)), [2, 'partition 0x8005: the first partition that this port is a full member of']);
    assert.match(String(key(all.slice(0, 1))[1]), /0x7fff: only limited memberships/);
    assert.deepEqual(key(all, 'mlx5_0?pkey=0x5'), [2, 'partition 0x8005: you named it'], 'with or without the bit of membership');
    assert.match(String(key(all.slice(0, 1), 'mlx5_0?pkey=0xffff')[1]), /a limited member reaches full members alone/);
  });

  it('takes GID 0 of an InfiniBand port', () => {
    assert.equal(choose([infiniband([[0, 0xffff]])], undefined).gid.index, 0);
  });
});
