import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { verbena, verbenaJson } from './verbena.js';

interface Result {
  who: string;
  op: string;
  size: number;
  metric: string;
  unit: string;
  min: number;
  p50: number;
  p99: number;
  max: number;
  rounds: number;
  verified: boolean;
}

interface Document {
  results: Result[];
  ratios: Record<string, number>;
  spreads: Record<string, [number, number]>;
  missing: Record<string, string>;
  skipped: Record<string, string>;
  failed: Record<string, string>;
}

const SHORT = ['--rounds', '5', '--round-ms', '20'];

function bench(...args: string[]): Promise<Document> {
  return verbenaJson<Document>(['bench', 'verbs', ...args, ...SHORT]);
}

function assertMeasured(document: Document, op: string, metric: string, unit: string): void {
  const [ours] = document.results;
  assert.deepEqual([ours.who, ours.op, ours.metric, ours.unit], ['verbena/shm', op, metric, unit]);
  assert.ok(ours.p50 > 0 && ours.min <= ours.p50 && ours.p50 <= ours.p99 * 1.0001, JSON.stringify(ours));
  assert.equal(ours.rounds, 5);
  assert.equal(ours.verified, true);
}

describe('verbena bench verbs', () => {
  it('prints one JSON document on stdout and progress on stderr; measures a peer beside it and gives the ratio of their rounds', async () => {
    const { code, stdout, stderr } = await verbena(['bench', 'verbs', '--op', 'send', '--peer', 'unix', ...SHORT, '--json']);
    assert.equal(code, 0, stderr);
    const document = JSON.parse(stdout) as Document;
    assertMeasured(document, 'send', 'latency', 'us');
    const [ours, theirs] = document.results;
    assert.equal(theirs.who, 'unix');
    const ordered = [
      theirs.min / ours.max,
      document.spreads['unix'][0],
      document.ratios['unix'],
      document.spreads['unix'][1],
      theirs.max / ours.min,
    ];
    assert.deepEqual(
      ordered,
      ordered.toSorted((a, b) => a - b),
    );
    assert.match(stderr, /round 5 of 5/);
  });

  for (const [op, metric, unit, ...more] of [
    ['write', 'latency', 'us', '--size', '7'],
    ['write', 'latency', 'us', '--mode', 'adaptive'],
    ['write', 'bandwidth', 'GB/s', '--size', '1M'],
    ['send', 'rate', 'msg/s'],
    ['send', 'latency', 'us', '--mode', 'event'],
    ['fetch-add', 'latency', 'us'],
    ['cmp-swap', 'rate', 'msg/s'],
  ]) {
    it(`measures ${op} ${metric} ${more.join(' ')}`, async () => {
      assertMeasured(await bench('--op', op, '--metric', metric, ...more), op, metric, unit);
    });
  }

  it('measures read bandwidth of private memory, and says why a peer has nothing to compare', async () => {
    const more = ['--size', '32K', '--memory', 'private', '--peer', 'tcp'];
    const document = await bench('--op', 'read', '--metric', 'bandwidth', ...more);
    assertMeasured(document, 'read', 'bandwidth', 'GB/s');
    assert.match(document.skipped['tcp'], /messages only/);
  });

  it('counts the shared memory per peer; DC holds at most 1.2 times what UD holds', async () => {
    const document = await verbenaJson<{
      results: { transport: string; bytesPerPeer: number }[];
      ratios: Record<string, number>;
    }>(['bench', 'verbs', '--metric', 'footprint', '--peers', '100']);
    assert.deepEqual(
      document.results.map(({ transport }) => transport),
      ['RC', 'DC', 'UD'],
    );
    assert.ok(document.ratios['DC/UD'] <= 1.2, JSON.stringify(document));
  });

  it('waiting by event costs next to no CPU', async () => {
    const document = await verbenaJson<{ results: { value: number }[] }>([
      'bench',
      'verbs',
      '--metric',
      'idle',
      '--mode',
      'event',
      '--round-ms',
      '1000',
    ]);
    assert.ok(document.results[0].value < 0.05, JSON.stringify(document));
  });
});
