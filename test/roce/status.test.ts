/** What a RoCE device counts is seen from outside: by top, by the doctor, and in the words of an error. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { roceFindings } from '../../src/cli/commands/doctor/roce.js';
import { findDevices } from '../../src/cli/commands/top/devices.js';
import { HostFiles } from '../../src/cli/host-files.js';
import { openDevice } from '../../src/verbs/index.js';
import { readRoceDevices } from '../../src/verbs/providers/roce/status-page.js';

const NAME = `seen from outside ${process.pid}`;
const PATIENCE_MS = 60_000;

async function shown(isSeen: (packets: number, errors: number) => boolean): Promise<void> {
  const limit = performance.now() + PATIENCE_MS;
  for (;;) {
    const device = readRoceDevices().find(({ name }) => name === NAME);
    assert.ok(device, 'the device is there');
    if (isSeen(device.counters.packetsSent, device.counters.errors)) return;
    assert.ok(performance.now() < limit, JSON.stringify(device));
    await delay(20);
  }
}

test('packets and errors of a device stand on its page until it is closed', async () => {
  const device = await openDevice('roce', { name: NAME });
  const pd = device.allocPd();
  const cq = device.createCq();
  const region = pd.register(device.alloc(64), { localWrite: true, remoteWrite: true });
  const qp = pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq });
  await qp.connect(qp.address());
  const remote = { remoteAddr: region.addr, rkey: region.rkey };
  qp.postSend({ opcode: 'RDMA_WRITE', sgl: [region.slice()], ...remote });
  assert.equal((await cq.next({ timeoutMs: PATIENCE_MS })).status, 'SUCCESS');
  await shown((packets) => packets >= 2);

  // Nobody is at the other end: the error says what was tried.
  const other = pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq });
  await other.connect({ ...qp.address(), qpNum: 0x7ffff0 });
  other.postSend({ opcode: 'RDMA_WRITE', sgl: [region.slice()], ...remote });
  const completion = await cq.next({ timeoutMs: PATIENCE_MS });
  assert.equal(completion.status, 'RETRY_EXC_ERR');
  assert.match(completion.cause?.words ?? '', /the device counts: .*retransmitted \d+, timeouts \d+/);
  await shown((_, errors) => errors === 1);

  const inTop = findDevices().find(({ name }) => name.startsWith(NAME));
  assert.equal(inTop?.provider, 'roce');
  assert.equal(inTop.counters.operations, 2);
  assert.equal(inTop.transport?.['unknownQueuePair'], 8);
  const finding = roceFindings(new HostFiles()).find(({ what }) => what.startsWith(NAME));
  assert.match(finding?.found ?? '', /2 queue pairs.*dropped: unknownQueuePair 8/);
  device.close();
  assert.equal(
    readRoceDevices().find(({ name }) => name === NAME),
    undefined,
  );
});
