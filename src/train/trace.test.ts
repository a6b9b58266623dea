import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Timeline } from './timeline.js';
import { chromeTrace } from './trace.js';

test('a trace has a process for each rank, spans in microseconds, and an arrow for each bucket between ranks', () => {
  const timelines = [0, 1].map((rank) => {
    const timeline = new Timeline(10);
    timeline.add('backward', 1000 + rank, 1010, 3);
    timeline.add('bucket-wait', 1005, 1006, 3, 0);
    timeline.add('bucket-transfer', 1006, 1008.5, 3, 0);
    return { rank, spans: timeline.spans() };
  });
  const { traceEvents } = chromeTrace(timelines);
  const spans = traceEvents.filter(({ ph }) => ph === 'X');
  assert.deepEqual(spans.map(({ name, pid, ts, dur }) => [name, pid, ts, dur]).slice(0, 3), [
    ['backward', 0, 0, 10_000],
    ['bucket 0: wait', 0, 5000, 1000],
    ['bucket 0: transfer', 0, 6000, 2500],
  ]);
  const arrows = traceEvents.filter(({ name }) => name === 'gradients');
  assert.deepEqual(arrows.map(({ ph, pid, id }) => `${ph}${pid} ${id}`).length, 4);
  for (const { id } of arrows.filter(({ ph }) => ph === 's')) {
    const end = arrows.find((one) => one.ph === 'f' && one.id === id);
    const start = arrows.find((one) => one.ph === 's' && one.id === id);
    assert.notEqual(end?.pid, start?.pid);
    assert.ok((end?.ts ?? 0) >= (start?.ts ?? Number.NaN));
  }
});

test('a timeline keeps the last spans when it is full', () => {
  const timeline = new Timeline(3);
  for (let step = 0; step < 5; step++) timeline.add('forward', step, step + 1, step);
  assert.deepEqual(
    timeline.spans().map(({ step }) => step),
    [2, 3, 4],
  );
});
