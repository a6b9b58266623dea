import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type DeviceSnapshot, ZERO_COUNTERS } from '../../../observe/index.js';
import { makeStyle } from '../../style.js';
import { rate, topText } from './top.js';

function device(key: string, operations: number): DeviceSnapshot {
  const counters = { ...ZERO_COUNTERS, operations, bytes: operations * 1024 };
  return {
    provider: 'shm',
    pid: 7,
    name: 'worker',
    key,
    completionQueues: [],
    segmentBytes: 4096,
    queuePairs: [{ qpNum: 1, type: 'RC', state: 'RTS', destination: 5, counters }],
    counters,
  };
}

describe('top', () => {
  it('shows rates since the last reading, and counts new devices from zero', () => {
    const [old, fresh] = rate([device('a', 1000)], [device('a', 3000), device('b', 500)], 2);
    assert.equal(old.rates.operations, 1000);
    assert.equal(old.queuePairRates[0].operations, 1000);
    assert.equal(fresh.rates.operations, 250);
  });

  it('has a row for each device, and for each queue pair when asked', () => {
    const devices = rate([], [device('a', 2_000_000)], 1);
    const lines = topText(devices, makeStyle(false), false).split('\n');
    assert.equal(lines.length, 2);
    assert.match(lines[1], /7\s+worker\s+1 pair\s+RTS\s+2\.00 M\s+1\.91 GiB/);
    const detailed = topText(devices, makeStyle(false), true).split('\n');
    assert.equal(detailed.length, 3);
    assert.match(detailed[2], /RC 1 → 5\s+RTS/);
  });

  it('says what to do when there is nothing to see', () => {
    assert.match(topText([], makeStyle(false), false), /verbena demo/);
  });
});
