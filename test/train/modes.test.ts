/** The training loop over parameter servers: in step with the all-reduce where it should be, and learning where it need not be. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { runRanks } from '../collectives/ranks.js';

const distance = (a: readonly number[], b: readonly number[]) =>
  a.reduce((most, value, i) => Math.max(most, Math.abs(value - b[i])), 0);

it('parameter servers train as the all-reduce does; asynchronous modes learn too, and settle on one model', async (test) => {
  const results = await runRanks('../../train/scenarios/modes', 2);
  for (const { rank, end, stderr } of results) assert.equal(end, 0, `rank ${rank}: ${stderr}`);
  const [plain, ...others] = results[0].said;
  for (const [turn, said] of others.entries()) {
    const { mode } = said;
    const theirs = results[1].said[turn + 1];
    test.diagnostic(`${mode}: accuracy ${said['accuracy']}`);
    assert.deepEqual(said['parameters'], theirs['parameters'], `${mode}: ranks ended with different parameters`);
    assert.deepEqual(said['state'], theirs['state'], `${mode}: ranks ended with different moments`);
    assert.ok((said['accuracy'] as number) > 0.95, `${mode}: accuracy ${said['accuracy']}`);
    const steps = plain['steps'] as number;
    assert.equal(said['steps'], steps);
    const sync = (mode as string).startsWith('ps');
    assert.equal(said['optimizerSteps'], sync ? steps : 2 * steps, `${mode}: updates`);
    if (!sync) continue;
    const off = distance(said['parameters'] as number[], plain['parameters'] as number[]);
    assert.ok(off < 1e-3, `${mode}: ${off} off after ${steps} steps`);
  }
});
