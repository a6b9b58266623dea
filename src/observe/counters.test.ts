import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { addCounters, counterRates, ZERO_COUNTERS } from './counters.js';

describe('Counters', () => {
  it('add up', () => {
    const one = { ...ZERO_COUNTERS, operations: 3, bytes: 10 };
    assert.deepEqual(addCounters(one, { ...one, errors: 1 }), { ...ZERO_COUNTERS, operations: 6, bytes: 20, errors: 1 });
  });

  it('become rates by the time between two readings', () => {
    const rates = counterRates({ ...ZERO_COUNTERS, operations: 100 }, { ...ZERO_COUNTERS, operations: 300, bytes: 50 }, 0.5);
    assert.equal(rates.operations, 400);
    assert.equal(rates.bytes, 100);
  });

  it('that went back count from zero', () => {
    assert.equal(counterRates({ ...ZERO_COUNTERS, operations: 100 }, { ...ZERO_COUNTERS, operations: 20 }, 1).operations, 20);
  });
});
