/** Multicast groups between two network namespaces, over IPv4 and IPv6: what the conformance suite does not say of the wire. */

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { openDevice } from '../../src/verbs/index.js';
import { NETWORK_ADDRESSES, NETWORK_ADDRESSES_6, VethNetwork } from './network.js';

const QKEY = 0x11111111;
const GROUP_QP = 0xffffff;
const network = VethNetwork.make();
if (typeof network !== 'string') after(() => network.remove());
const skip = typeof network === 'string' ? network : false;

/** The group as the route header of a datagram shows it: the last four, or all sixteen bytes of the destination address. */
const CASES = [
  { name: 'an IPv4 group', addresses: NETWORK_ADDRESSES, gid: '::ffff:239.9.8.7', shown: [239, 9, 8, 7] },
  {
    name: 'an IPv6 group among IPv4 devices',
    addresses: NETWORK_ADDRESSES,
    gid: 'ff0e::1:7:203',
    shown: [239, 0x0e ^ 1 ^ 7, 2, 3],
  },
  {
    name: 'an IPv6 group',
    addresses: NETWORK_ADDRESSES_6,
    gid: 'ff0e::1:7:203',
    shown: [0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 7, 2, 3],
  },
];

for (const { name, addresses, gid, shown } of CASES) {
  test(`${name}: one datagram reaches the members on both hosts, with the group in its route header`, { skip }, async () => {
    const { names } = network as VethNetwork;
    const sides = await Promise.all(
      addresses.map(async (address, i) => {
        const device = await openDevice(`roce:${names[i]}/${address.includes(':') ? `[${address}]` : address}`);
        const pd = device.allocPd();
        const cq = device.createCq();
        const qp = pd.createQp({ type: 'UD', sendCq: cq, recvCq: cq });
        await qp.connect();
        const region = pd.register(device.alloc(128), { localWrite: true });
        qp.attachMulticast(gid);
        qp.postRecv({ sgl: [region.slice()], id: 1 });
        return { device, pd, cq, qp, region };
      }),
    );
    after(() => {
      for (const { device } of sides) device.close();
    });
    const [a] = sides;
    const inlineData = Uint8Array.of(1, 2, 3, 4);
    a.qp.postSend({ opcode: 'SEND', inlineData, id: 9, ah: a.pd.createAh({ gid }), remoteQpn: GROUP_QP, remoteQkey: QKEY });
    for (const [i, { cq, region }] of sides.entries()) {
      const completions = [await cq.next({ timeoutMs: 30_000 }), ...(i === 0 ? [await cq.next({ timeoutMs: 30_000 })] : [])];
      const received = completions.find(({ opcode }) => opcode === 'RECV');
      assert.equal(received?.byteLen, 44);
      assert.equal(received?.srcQp, a.qp.qpNum);
      assert.deepEqual([...region.bytes.subarray(40, 44)], [...inlineData]);
      assert.deepEqual([...region.bytes.subarray(40 - shown.length, 40)], shown);
    }
  });
}
