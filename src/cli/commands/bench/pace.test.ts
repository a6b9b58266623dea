import assert from 'node:assert/strict';
import { describe, it, mock } from 'node:test';
import { Pace } from './pace.js';

/** A machine whose operations take a fixed time on a clock of its own. */
function machine(context: { after: (end: () => void) => void }, operationMs: number) {
  let now = 0;
  const clock = mock.method(performance, 'now', () => now);
  context.after(() => clock.mock.restore());
  const calls: { batch: number; batches: number }[] = [];
  const run = async (batch: number, batches: number) => {
    calls.push({ batch, batches });
    now += batch * batches * operationMs;
    return batch * batches;
  };
  return { run, calls };
}

describe('Pace', () => {
  it('starts small, then fills the time with whole batches', async (context) => {
    const { run, calls } = machine(context, 0.001);
    await new Pace(1000, 20).run(100, run);
    assert.deepEqual(calls[0], { batch: 20, batches: 1 });
    assert.deepEqual(calls.at(-1), { batch: 1000, batches: 100 });
  });

  it('makes batches smaller when a full one would take too long', async (context) => {
    const { run, calls } = machine(context, 1);
    await new Pace(1000, 20).run(200, run);
    const last = calls.at(-1) as { batch: number; batches: number };
    assert.ok(last.batch * last.batches <= 250, `${last.batch} x ${last.batches}`);
    assert.equal(last.batch % 20, 0);
  });

  it('ends even when nothing takes long enough', async (context) => {
    const { run, calls } = machine(context, 1e-9);
    await new Pace(32, 32).run(1000, run);
    assert.ok(calls.length < 5);
  });
});
