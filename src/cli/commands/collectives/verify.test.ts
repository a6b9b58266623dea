import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ALGORITHMS } from '../../../collectives/index.js';
import { parseArguments } from '../../arguments.js';
import type { Command, Context } from '../../command.js';
import { makeStyle } from '../../style.js';
import { verifyCommand } from './verify.js';

async function verify(...args: string[]) {
  const command = verifyCommand as unknown as Command;
  const parsed = parseArguments(args, command.options, command.positionals);
  const outcome = await command.run({
    options: parsed.values as Context['options'],
    positionals: parsed.positionals,
    json: false,
    style: makeStyle(false),
    width: 100,
    progress() {},
    screen() {},
    interactive: false,
    signal: new AbortController().signal,
  });
  return {
    rows: (outcome.document as { rows: { algorithm: string; schedules: number; flaws: string[] }[] }).rows,
    text: typeof outcome.text === 'string' ? outcome.text : outcome.text(),
    exitCode: outcome.exitCode,
  };
}

test('verify proves one algorithm, or all of a collective', async () => {
  const one = await verify('allreduce:ring', '--ranks', '1..5');
  assert.equal(one.rows.length, 1);
  assert.ok(one.rows[0].schedules >= 5 && one.text.includes('proved') && one.exitCode === 0);
  const all = await verify('broadcast', '--ranks', '4');
  assert.equal(all.rows.length, ALGORITHMS.broadcast.length);
  assert.ok(all.rows.every(({ flaws }) => flaws.length === 0));
});

test('verify refuses what it does not know, with what there is', async () => {
  await assert.rejects(verify('allreduce:rign'), /known: recursive-doubling/);
  await assert.rejects(verify('alreduce'), /name a collective: allreduce/);
  await assert.rejects(verify('allreduce', '--ranks', '4..2'), /a number or a range/);
});
