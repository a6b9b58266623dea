import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { calibrationCalls, fitMachine, type MeasuredTime, slotSeconds } from './calibration.js';
import { LOCAL_MACHINE } from './local-machine.js';
import { type Machine, predictSeconds } from './machine.js';
import { findAlgorithm } from './registry.js';
import { tunedMachine, writeTunedMachine } from './tuned-machine.js';

/** Invented: what fits into a cache moves three times as fast. */
const curve = (fast: number) =>
  [16, 128, 1024, 4096, 65536].map((k) => ({ bytes: k * 1024, secondsPerByte: k <= 1024 ? fast : 3 * fast }));
const MACHINE: Machine = {
  name: 'invented',
  host: { alphaSeconds: 0.5e-6, betaSecondsPerByte: 1e-10, curve: curve(1e-10) },
  memory: { alphaSeconds: 0.3e-6, betaSecondsPerByte: 0.8e-10, curve: curve(0.8e-10) },
  memoryWrite: { alphaSeconds: 0.3e-6, betaSecondsPerByte: 0.4e-10, curve: curve(0.4e-10) },
  memoryUpdate: { alphaSeconds: 0, betaSecondsPerByte: 0.2e-10, curve: curve(0.2e-10) },
  network: LOCAL_MACHINE.network,
  gammaSecondsPerByte: 0.1e-10,
  gammaCurve: curve(0.1e-10),
  copy: { secondsPerByte: 0.6e-10, curve: curve(0.6e-10) },
  callSeconds: 0.4e-6,
  slots: { alphaSeconds: 0.4e-6, betaSecondsPerByte: 1e-10 },
  offers: ['shared-memory'],
};

function secondsOn(machine: Machine, ranks: number, { collective, algorithm, bytes }: Omit<MeasuredTime, 'seconds'>): number {
  if (algorithm === undefined) return slotSeconds(machine, ranks, bytes) as number;
  const shape = { size: ranks, bytes };
  return predictSeconds(findAlgorithm(collective, algorithm).cost(shape), shape, machine);
}

for (const ranks of [2, 4, 6]) {
  test(`the constants of an invented machine are found again from its times, ${ranks} ranks`, () => {
    const times = calibrationCalls(ranks).map((call) => ({ ...call, seconds: secondsOn(MACHINE, ranks, call) }));
    const found = fitMachine('found', ranks, times);
    for (const [collective, algorithm] of [
      ['allreduce', 'ring'],
      ['allreduce', 'shared-direct'],
      ['broadcast', 'binomial'],
      ['broadcast', 'shared-direct'],
      ['reduce', 'shared-direct'],
      ['all-to-all', 'bruck'],
    ] as const) {
      for (const bytes of [64 << 10, 1 << 20, 8 << 20]) {
        const [wanted, got] = [MACHINE, found].map((machine) => secondsOn(machine, ranks, { collective, algorithm, bytes }));
        // The smallest call moves a few bytes, which count as latency; even sizes are a few bytes off the curve.
        assert.ok(Math.abs(got / wanted - 1) < 0.01, `${collective}:${algorithm} of ${bytes}: ${got} for ${wanted}`);
      }
    }
    assert.throws(() => fitMachine('found', ranks, times.slice(0, 4)), /too few sizes/);
    assert.throws(() => fitMachine('found', ranks, times.slice(0, 2)), /no time of all-gather:shared-direct/);
  });
}

test('kept constants are read again, and slowed down for more ranks than were measured', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'verbena-tuned-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, 'collectives.json');
  assert.equal(tunedMachine(2, path), LOCAL_MACHINE);
  writeTunedMachine(2, MACHINE, path);
  assert.deepEqual(tunedMachine(2, path), MACHINE);
  const many = tunedMachine(4096, path);
  assert.ok(many.host.alphaSeconds > 4 * MACHINE.host.alphaSeconds);
  assert.ok((many.memory.curve?.[0].secondsPerByte ?? 0) > 4 * (MACHINE.memory.curve?.[0].secondsPerByte ?? 0));
  assert.deepEqual(many.network, MACHINE.network);
});
