import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { makeStyle } from '../../style.js';
import type { Measured } from './alternate.js';
import type { BenchCase } from './case.js';
import { benchDocument, benchText, caseTitle } from './report.js';

const BENCH: BenchCase = { op: 'write', metric: 'latency', size: 8, mode: 'poll', memory: 'arena' };

function measured(who: string, p50: number, medians: readonly number[]): Measured {
  return {
    who,
    medians,
    summary: { min: p50 / 2, p50, p99: p50 * 2, max: p50 * 3, batches: 50, rounds: 5 },
    details: { what: 'x' },
    verified: true,
  };
}

const document = benchDocument(
  BENCH,
  {
    measured: [measured('verbena/shm', 0.15, [0.15, 0.5, 0.15]), measured('ucx', 0.3, [0.3, 1, 0.3])],
    failed: { tcp: 'broke' },
  },
  { missing: { zeromq: { reason: 'not installed', install: 'npm run setup:peers' } }, skipped: { unix: 'unfit' } },
  [0, 1],
);

describe('The report', () => {
  it('has the fields of the contract', () => {
    const [ours] = document.results;
    assert.deepEqual(
      [ours.who, ours.op, ours.size, ours.metric, ours.unit, ours.min, ours.p50, ours.p99],
      ['verbena/shm', 'write', 8, 'latency', 'us', 0.075, 0.15, 0.3],
    );
    assert.deepEqual([document.ratios, document.spreads], [{ ucx: 2 }, { ucx: [2, 2] }]);
    assert.deepEqual(document.missing, { zeromq: 'npm run setup:peers' });
    assert.deepEqual(JSON.parse(JSON.stringify(document)).failed, { tcp: 'broke' });
  });

  it('shows everybody and who did not take part', () => {
    const text = benchText(BENCH, document, makeStyle(false));
    assert.match(text, /WRITE 8 B latency/);
    assert.match(text, /ucx .*0\.300 us.*2\.00x/);
    assert.match(text, /missing zeromq: npm run setup:peers/);
    assert.match(text, /skipped unix: unfit/);
    assert.match(text, /failed tcp: broke/);
  });

  it('titles say what differs from the usual case', () => {
    assert.equal(
      caseTitle({ ...BENCH, op: 'read', size: 1 << 20, metric: 'bandwidth', memory: 'private' }),
      'READ 1 MiB bandwidth, private memory',
    );
    assert.equal(caseTitle({ ...BENCH, mode: 'event' }), 'WRITE 8 B latency, event mode');
  });
});
