/** Ten thousand connections made and closed leave neither descriptors nor mappings nor memory behind, on both sides. */

import assert from 'node:assert/strict';
import { openDevice } from '../../src/verbs/index.js';
import { processTest } from './harness.js';
import { type Holdings, holdings } from './holdings.js';
import { Link, type Offer } from './link.js';

const MIB = 1 << 20;

function assertNoGrowth(before: Holdings, after: Holdings, who: string, sharedMiB = 4): void {
  assert.ok(after.descriptors <= before.descriptors + 2, `${who}: descriptors ${before.descriptors} to ${after.descriptors}`);
  assert.ok(after.mappings <= before.mappings + 16, `${who}: mappings ${before.mappings} to ${after.mappings}`);
  const grown = (after.resident - before.resident) / MIB;
  assert.ok(grown < 24, `${who}: resident memory grew by ${grown.toFixed(1)} MiB`);
  const objects = (after.heap - before.heap) / MIB;
  assert.ok(objects < 8, `${who}: live objects grew by ${objects.toFixed(1)} MiB`);
  const shared = (after.residentShared - before.residentShared) / MIB;
  assert.ok(shared < sharedMiB, `${who}: shared memory grew by ${shared.toFixed(1)} MiB`);
}

processTest('10,000 connections through a listener in another process', async (hand) => {
  const name = `leaks-${process.pid}`;
  const greeter = hand.process('greeter', { name }, { watchdogMs: 55_000 });
  const { remote } = await greeter.hear<{ remote: Offer['remote'] }>('listening');
  const link = await Link.open(4096);
  link.qp.close();
  const report = async (end: boolean) => {
    greeter.say({ type: 'report', end });
    return { ours: await holdings(), theirs: await greeter.hear<Holdings & { guests: number }>('report') };
  };
  let made = 0;
  const cycles = async (count: number) => {
    for (let i = 0; i < count; i++) {
      const qp = link.makeQp();
      const connection = await link.device.connect(name, qp);
      link.words[0] = BigInt(made);
      qp.postSend({ opcode: 'RDMA_WRITE', sgl: [link.region.slice(0, 8)], remoteAddr: remote.addr, rkey: remote.rkey });
      link.next();
      connection.disconnect();
      qp.close();
      made++;
    }
  };
  await cycles(4000); // the engine's heap finds its size
  const before = await report(false);
  await cycles(6000);
  const after = await report(true);
  assert.equal(after.theirs.guests, 10_000);
  // Numbers are not used again at once, so that fresh entries of the table are touched for a long time; rings would be ten times as much.
  assertNoGrowth(before.ours, after.ours, 'the one who connects', 12);
  assertNoGrowth(before.theirs, after.theirs, 'the one who listens', 12);
  await greeter.exited;
  link.close();
});

processTest('10,000 queue pairs connected by hand inside one process', async () => {
  const [one, two] = [await Link.open(4096), await Link.open(4096)];
  const cycles = async (count: number) => {
    for (let i = 0; i < count; i++) {
      const [left, right] = [one.makeQp(), two.makeQp()];
      await left.connect(right.address());
      await right.connect(left.address());
      right.postRecv({ id: 1 });
      left.postSend({ opcode: 'SEND', id: 2 });
      one.next();
      two.next();
      left.close();
      right.close();
    }
  };
  // Every number has been used once after this: what grows later is a leak.
  await cycles(17_000);
  const before = await holdings();
  await cycles(10_000);
  assertNoGrowth(before, await holdings(), 'the process');
  one.close();
  two.close();
});

processTest('300 pairs of devices opened, used and closed', async () => {
  const cycles = async (count: number) => {
    for (let i = 0; i < count; i++) {
      const [one, two] = [await Link.open(65536), await Link.open(65536)];
      await one.join(two.offer());
      await two.join(one.offer());
      const remote = two.region.remote();
      one.qp.postSend({ opcode: 'RDMA_WRITE', sgl: [one.region.slice()], remoteAddr: remote.addr, rkey: remote.rkey });
      one.next();
      one.close();
      two.close();
    }
  };
  await cycles(60);
  const before = await holdings();
  await cycles(240);
  assertNoGrowth(before, await holdings(), 'the process');
});

processTest('memory that is registered, deregistered and freed comes back', async () => {
  const device = await openDevice('shm');
  const pd = device.allocPd();
  const cycles = (count: number) => {
    for (let i = 0; i < count; i++) {
      const memory = device.alloc(MIB);
      new Uint8Array(memory).fill(1);
      pd.register(memory, { remoteRead: true }).deregister();
      device.free(memory);
      pd.register(new ArrayBuffer(4096), { remoteRead: true }).deregister();
    }
  };
  cycles(200);
  const before = await holdings();
  cycles(2000);
  assertNoGrowth(before, await holdings(), 'the process');
  device.close();
});
