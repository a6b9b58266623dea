import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { BenchCase } from '../case.js';
import { parseIperf } from './iperf3.js';
import { parseUdp, udp } from './udp.js';

const BASE: BenchCase = { op: 'write', metric: 'latency', size: 8, mode: 'poll', memory: 'arena' };

describe('The UDP ping-pong', () => {
  it('prints times of batches of round trips, which become one-way times', () => {
    assert.deepEqual(parseUdp(BASE, 'batch 1000\n4000.000\n8000.000\n'), [2, 4]);
    assert.throws(() => parseUdp(BASE, ''), /nothing at all/);
    assert.throws(() => parseUdp(BASE, 'batch 1000\n'), /no result/);
  });

  it('compares one packet back and forth, and nothing else', () => {
    assert.equal(udp.unfit(BASE), undefined);
    assert.match(udp.unfit({ ...BASE, metric: 'bandwidth' }) ?? '', /ping-pong/);
    assert.match(udp.unfit({ ...BASE, size: 8192 }) ?? '', /one packet/);
  });
});

describe('iperf3', () => {
  it('tells what arrived and what was lost', () => {
    const run = parseIperf('{"end":{"sum":{"bits_per_second":8e9,"lost_percent":25}}}');
    assert.deepEqual(run, { goodput: 0.75e9, loss: 0.25 });
  });

  it('must have a result', () => {
    assert.throws(() => parseIperf('{"error":"unable to connect"}'), /unable to connect/);
    assert.throws(() => parseIperf('{}'), /no result/);
  });
});
