/** Checkpoints: a run that goes on from one ends with the bits of a run that was never stopped; bad ones are found out. */

import assert from 'node:assert/strict';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { Adam } from '../../src/nn/index.js';
import { listCheckpoints, restoreCheckpoint } from '../../src/train/index.js';
import { smallModel } from './scenarios/digits.js';
import { type Outcome, runTrials } from './trials.js';

describe('checkpoints', () => {
  let folder: string;
  let written: string;
  let outcomes: Outcome[];
  const rich = { model: 'rich', optimizer: 'adam', rate: 0.003 } as const;
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'verbena-checkpoints-'));
    written = join(folder, 'first');
    // Where a shard's file would be stands a folder.
    for (const [step, shard] of Object.entries({ '04': 0, '08': 1, '16': 0 }))
      mkdirSync(join(folder, 'blocked', `step-0000000${step}.partial`, `shard-${shard}-of-2.safetensors.tmp`), {
        recursive: true,
      });
    outcomes = await runTrials(2, [
      { ...rich, steps: 22, checkpoints: written, checkpointEvery: 4 },
      { ...rich, steps: 40, resume: written },
      { ...rich, steps: 40 },
      { ...rich, shards: 2, steps: 10, checkpoints: join(folder, 'shards'), checkpointEvery: 10 },
      { ...rich, shards: 2, steps: 30 },
      { ...rich, steps: 40, checkpoints: join(folder, 'often'), checkpointEvery: 1, whenBusy: 'skip' },
      { ...rich, steps: 16, checkpoints: join(folder, 'blocked'), checkpointEvery: 4 },
    ]);
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  it('are written while training goes on, whole ones only, the last three of them', () => {
    assert.equal(outcomes[0].checkpoints?.begun, 5);
    assert.deepEqual(listCheckpoints(written), [20, 16, 12]);
    assert.deepEqual(
      readdirSync(written).filter((name) => name.includes('partial')),
      [],
    );
  });

  it('are left out by all when a rank has no room for them, and the step does not wait', () => {
    const { begun, skipped, committed, failure } = outcomes[5].checkpoints as NonNullable<Outcome['checkpoints']>;
    assert.equal(failure, undefined);
    assert.equal(begun + skipped, 40);
    assert.ok(begun > 0);
    assert.deepEqual(outcomes[5].parameters, outcomes[2].parameters);
    const bad: number[] = [];
    const model = smallModel('rich', 8);
    const [newest] = listCheckpoints(join(folder, 'often'));
    assert.equal(newest, committed);
    const restored = restoreCheckpoint(join(folder, 'often'), model, new Adam(model), { onBad: (step) => bad.push(step) });
    assert.deepEqual([restored?.step, bad], [newest, []]);
    assert.deepEqual(
      readdirSync(join(folder, 'often')).filter((name) => name.endsWith('.partial')),
      [],
    );
  });

  it('that cannot be written are said and leave nothing, and training goes on', () => {
    const { committed, failure } = outcomes[6].checkpoints as NonNullable<Outcome['checkpoints']>;
    assert.deepEqual([outcomes[6].steps, committed], [16, 12]);
    assert.match(failure ?? '', /^EISDIR: .*step-000000016.partial/);
    assert.deepEqual(readdirSync(join(folder, 'blocked')), ['step-000000012']);
  });

  it('let a run go on with the bits of one that was never stopped', () => {
    assert.equal(outcomes[1].restored, 20);
    assert.equal(outcomes[1].steps, 40);
    assert.deepEqual(outcomes[1].parameters, outcomes[2].parameters);
    assert.deepEqual(outcomes[1].state, outcomes[2].state);
  });

  it('of two ranks are gone on from by one, with the same bits in reproducible mode', async () => {
    const [one] = await runTrials(1, [{ ...rich, shards: 2, steps: 30, resume: join(folder, 'shards') }]);
    assert.equal(one.restored, 10);
    assert.deepEqual(one.parameters, outcomes[4].parameters);
  });

  it('that are torn or were changed are passed over for the one before, and said', () => {
    const damaged = join(folder, 'damaged');
    cpSync(written, damaged, { recursive: true });
    const shard = join(damaged, 'step-000000020', 'shard-1-of-2.safetensors');
    const bytes = readFileSync(shard);
    bytes[bytes.length - 9] ^= 4;
    writeFileSync(shard, bytes);
    truncateSync(join(damaged, 'step-000000016', 'shard-0-of-2.safetensors'), 300);
    const model = smallModel('rich', 8);
    const optimizer = new Adam(model);
    const bad: string[] = [];
    const restored = restoreCheckpoint(damaged, model, optimizer, { onBad: (step, reason) => bad.push(`${step}: ${reason}`) });
    assert.deepEqual(restored, { step: 12, shards: 2 });
    assert.equal(optimizer.steps, 12);
    assert.equal(bad.length, 2);
    assert.match(bad[0], /^20: shard-1-of-2.safetensors does not have its checksum/);
    assert.match(bad[1], /^16: shard-0-of-2.safetensors has 300 bytes/);
    writeFileSync(join(damaged, 'step-000000012', 'manifest.json'), '{"sha256":"');
    const before = model.parameters.slice();
    assert.equal(restoreCheckpoint(damaged, model, optimizer), undefined);
    assert.deepEqual(model.parameters, before);
  });

  it('of another run are refused, naming the difference', () => {
    const model = smallModel('rich', 8);
    assert.throws(
      () => restoreCheckpoint(written, model, new Adam(model), { settings: { batch: 32 } }),
      /made with batch 24, this run has 32/,
    );
    const plain = smallModel('plain', 8);
    assert.throws(() => restoreCheckpoint(written, plain, new Adam(plain)), /made with parameters/);
  });
});
