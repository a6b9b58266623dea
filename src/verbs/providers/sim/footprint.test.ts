import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { AddressHandle } from '../../address-handle.js';
import { WorkCompletions } from '../../work-completions.js';
import { SimFabric } from './fabric.js';

const HUBS = 24;
const PEERS = 1000;
const KEY = 0x11111111;
/** Peers that are talked to before all of them are left idle. */
const AT_ONCE = 32;
const IDLE_NS = 2e9;

// Code that is thrown away between two looks would count as memory saved.
for (const flag of ['--expose-gc', '--no-flush-bytecode']) setFlagsFromString(flag);
const collect = runInNewContext('gc') as () => void;

function heldBytes(): number {
  for (let i = 0; i < 5; i++) collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/**
 * Bytes that devices and their peers hold for each pair that has talked both ways and is idle. All of them have talked to somebody before: what a
 * queue pair makes once, for whomever it talks to first, does not count.
 */
function bytesPerIdlePeer(type: 'UD' | 'DC'): number {
  const fabric = new SimFabric({ clock: 'virtual', mtu: 256 });
  const wcs = new WorkCompletions(64);
  const [other, ...hubs] = Array.from({ length: 1 + HUBS }, () => {
    const device = fabric.open();
    const pd = device.allocPd();
    const cq = device.createCq({ depth: 256 });
    const srq = pd.createSrq({ maxWr: 64, maxSge: 1 });
    const landing = pd.register(device.alloc(128), { localWrite: true }).slice();
    return { device, pd, cq, srq, landing };
  });
  const endOf = ({ pd, cq, srq }: typeof other) => {
    const init = { sendCq: cq, recvCq: cq, maxSendWr: 1, maxRecvWr: 1, maxInline: 8, maxSendSge: 1, maxRecvSge: 1 };
    const [sender, target] =
      type === 'UD'
        ? [pd.createQp({ ...init, type: 'UD' }), pd.createQp({ ...init, type: 'UD', srq })]
        : [pd.createQp({ ...init, type: 'DCI' }), pd.createQp({ ...init, type: 'DCT', srq, dcKey: KEY })];
    for (const qp of [sender, target]) void qp.connect();
    return { sender, target };
  };
  const centers = hubs.map(endOf);
  const peers = Array.from({ length: PEERS }, () => endOf(other));
  const handles: AddressHandle[] = [];
  const talk = (which: number, from: number, to: number): void => {
    const [hub, center] = [hubs[which], centers[which]];
    for (let i = from; i < to; i++) {
      for (const side of [hub, other]) side.srq.postRecv({ sgl: [side.landing] });
      const [out, back] = [hub.pd.createAh({ gid: other.device.gid }), other.pd.createAh({ gid: hub.device.gid })];
      handles.push(out, back);
      const inlineData = new Uint8Array(8);
      const common = { opcode: 'SEND', inlineData, remoteQkey: KEY, dcKey: KEY } as const;
      center.sender.postSend({ ...common, ah: out, remoteQpn: peers[i].target.qpNum });
      peers[i].sender.postSend({ ...common, ah: back, remoteQpn: center.target.qpNum });
      let completions = 0;
      fabric.run(() => {
        completions += hub.cq.poll(wcs) + other.cq.poll(wcs);
        return completions === 4;
      });
      if (i % AT_ONCE === AT_ONCE - 1) fabric.advance(IDLE_NS);
    }
    fabric.advance(IDLE_NS);
  };
  talk(0, 0, PEERS);
  for (let hub = 1; hub < HUBS; hub++) talk(hub, 0, AT_ONCE);
  const before = heldBytes();
  const known = handles.length / 2;
  for (let hub = 1; hub < HUBS; hub++) talk(hub, AT_ONCE, PEERS);
  const perPeer = (heldBytes() - before) / (handles.length / 2 - known);
  fabric.run();
  return perPeer;
}

test('an idle peer takes hardly more memory with DC than with UD', (t) => {
  const [ud, dc] = [bytesPerIdlePeer('UD'), bytesPerIdlePeer('DC')];
  t.diagnostic(`${ud.toFixed(0)} bytes with UD, ${dc.toFixed(0)} with DC`);
  assert.ok(ud > 50, 'address handles take some');
  assert.ok(dc <= 1.2 * ud, `${dc.toFixed(0)} bytes with DC, ${ud.toFixed(0)} with UD`);
});
