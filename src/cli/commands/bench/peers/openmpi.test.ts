import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { BenchCase } from '../case.js';
import { openmpi, parseBatches } from './openmpi.js';

const BASE: BenchCase = { op: 'send', metric: 'latency', size: 8, mode: 'poll', memory: 'arena' };

describe('The Open MPI program', () => {
  it('prints times of batches, which become values', () => {
    assert.deepEqual(parseBatches(BASE, 'batch 1000\n600.000\n800.000\n'), [0.3, 0.4]);
    assert.deepEqual(parseBatches({ ...BASE, metric: 'rate' }, 'batch 1024\n1024.000\n'), [1e6]);
  });

  it('must have printed something', () => {
    assert.throws(() => parseBatches(BASE, ''), /nothing at all/);
    assert.throws(() => parseBatches(BASE, 'batch 1000\n'), /no result/);
    assert.throws(() => parseBatches(BASE, 'batch 1000\nx\n'), /no result/);
  });

  it('has nothing like one-sided reads', () => {
    assert.match(openmpi.unfit({ ...BASE, op: 'read' }) ?? '', /messages only/);
    assert.equal(openmpi.unfit({ ...BASE, op: 'write' }), undefined);
  });
});
