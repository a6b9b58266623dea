import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compressionPayoff } from './compression.js';
import { latencyBudget } from './latency-budget.js';
import { packetBudget } from './packet-budget.js';
import { parameterServer } from './parameter-server.js';
import { pollingEnergy } from './polling-energy.js';
import { linkNamed, rendezvousThreshold, type ThresholdOptions } from './rendezvous-threshold.js';
import { speedup, workersAtEfficiency } from './speedup.js';

test("one parameter server is the bottleneck by W, as many servers as workers are none, and co-located ones move a ring's bytes", () => {
  const base = { workers: 8, bytes: 1e9, bytesPerSecond: 1e9 };
  assert.deepEqual(
    [parameterServer({ ...base, servers: 1 }).pushSeconds, parameterServer({ ...base, servers: 1 }).bottleneck],
    [8, 'server'],
  );
  assert.equal(parameterServer({ ...base, servers: 2 }).pushThenPullSeconds, 8);
  assert.equal(parameterServer({ ...base, servers: 8 }).overlappedSeconds, 1);
  const here = parameterServer({ ...base, servers: 8, colocated: true });
  assert.equal(here.pushThenPullSeconds, here.ringSeconds);
  assert.throws(() => parameterServer({ ...base, servers: 0 }), /at least 1/);
  assert.throws(() => parameterServer({ ...base, servers: 9, colocated: true }), /nearest legal value: 8/);
});

test("rendezvous thresholds with UCX's constants", () => {
  const kilobytes = (link: string, options: ThresholdOptions = {}): string =>
    (rendezvousThreshold(linkNamed(link), options).thresholdBytes / 1e3).toPrecision(3);
  assert.equal(kilobytes('edr'), '29.4');
  assert.equal(kilobytes('hdr'), '20.1');
  assert.equal(kilobytes('ndr'), '17.4');
  const cold: ThresholdOptions = { registrationCache: false };
  assert.equal(kilobytes('edr', cold), '686');
  assert.equal(kilobytes('hdr', cold), '275');
  assert.equal(kilobytes('ndr', cold), '213');
  assert.equal(kilobytes('hdr', { ...cold, scheme: 'am' }), '18.3');
  assert.equal(kilobytes('fdr', cold), 'Infinity');
  assert.equal(kilobytes('edr', { copyBytesPerSecond: 7000 * 2 ** 20 }), '43.9');
  assert.throws(() => linkNamed('hyper'), /there are sdr/);
});

test('on links not faster than a copy, rendezvous never pays in time', () => {
  for (const name of ['sdr', 'ddr', 'qdr']) {
    const { thresholdBytes } = rendezvousThreshold(linkNamed(name), { preference: 1 });
    assert.equal(thresholdBytes, Number.POSITIVE_INFINITY, name);
  }
});

test('compression pays on slow links and not on fast ones; the break-even speed separates them', () => {
  const q = { bytes: 1e9, workers: 8, ratio: 4, codecBytesPerSecond: 20e9, computeSeconds: 0.1 };
  const slow = compressionPayoff({ ...q, bytesPerSecond: 1e9 });
  assert.ok(slow.pays && slow.gain > 2);
  const fast = compressionPayoff({ ...q, bytesPerSecond: 100e9 });
  assert.ok(!fast.pays);
  // wire (1 - 1/4) / b = codec: 1.75e9 * 0.75 / b = 0.05
  assert.ok(Math.abs(slow.breakEvenBytesPerSecond - 26.25e9) < 1e6, String(slow.breakEvenBytesPerSecond));
  assert.ok(!compressionPayoff({ ...q, bytesPerSecond: 1e9, stepFactor: slow.breakEvenStepFactor * 1.001 }).pays);
  assert.ok(compressionPayoff({ ...q, bytesPerSecond: 1e9, stepFactor: slow.breakEvenStepFactor * 0.999 }).pays);
  assert.throws(() => compressionPayoff({ ...q, bytesPerSecond: 1e9, ratio: 0.5 }), /nearest legal value: 1/);
});

test('Amdahl and Gustafson by the serial fraction', () => {
  const answer = speedup(0.05, 100);
  assert.equal(answer.amdahl.toFixed(2), '16.81');
  assert.equal(answer.limit, 20);
  assert.equal(answer.gustafson, 95.05);
  assert.equal(speedup(0, 64).amdahl, 64);
  assert.equal(workersAtEfficiency(0.05, 0.5), 21);
  assert.ok(speedup(0.05, 21).efficiency >= 0.5 && speedup(0.05, 22).efficiency < 0.5);
  assert.throws(() => speedup(1.5, 4), /nearest legal value: 1/);
});

test('a WRITE takes 2 to 5 us by its budget; inline saves a DMA, a region table in DRAM costs one', () => {
  const write = latencyBudget();
  assert.ok(write.lowNs >= 2000 && write.lowNs <= 2200, String(write.lowNs));
  assert.ok(write.highNs >= 4500 && write.highNs <= 5000, String(write.highNs));
  assert.equal(write.highNs - latencyBudget({ inline: true }).highNs, 1000);
  assert.equal(latencyBudget({ tableCached: false }).highNs - write.highNs, 1000);
  assert.ok(latencyBudget({ operation: 'send' }).lowNs > write.lowNs);
});

test('33 to 133 million packets a second from 400 Gb/s to 1.6 Tb/s, 30 to 7.5 ns each; 14.88 million at 10 Gb/s and 64 B', () => {
  const first = packetBudget({ bitsPerSecond: 400e9 });
  assert.equal(Math.round(first.packetsPerSecond / 1e6), 33);
  assert.equal(first.nsPerPacket, 30);
  const small = packetBudget({ bitsPerSecond: 10e9, packetBytes: 64, framingBytes: 20, kernelNs: 500 }).cores;
  assert.equal(small.kernel.toFixed(2), '7.44');
  assert.equal(small.kernelDescriptors.toFixed(2), '4.69', '63 % of it at 64 B');
  const second = packetBudget({ bitsPerSecond: 1.6e12 });
  assert.equal(Math.round(second.packetsPerSecond / 1e6), 133);
  assert.equal(second.nsPerPacket, 7.5);
  assert.equal(
    (packetBudget({ bitsPerSecond: 10e9, packetBytes: 64, framingBytes: 20 }).packetsPerSecond / 1e6).toFixed(2),
    '14.88',
  );
});

test('a polling core draws 4.4 W, the NIC 3.8 W; interrupts are cheaper below their break-even rate', () => {
  const answer = pollingEnergy({ eventsPerSecond: 1000 });
  assert.equal(answer.pollingWatts.toFixed(1), '4.4');
  assert.equal(answer.nicWatts, 3.8);
  assert.ok(answer.interruptWatts < answer.pollingWatts / 100);
  assert.equal(pollingEnergy({ eventsPerSecond: 300_000 }).advice, 'poll');
  assert.equal(answer.advice, 'interrupt');
});
