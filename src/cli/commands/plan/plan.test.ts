import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseArguments } from '../../arguments.js';
import { type Command, type Context, isGroup } from '../../command.js';
import { makeStyle } from '../../style.js';
import { planCommand } from './plan.js';

async function plan(name: string, ...args: string[]): Promise<{ document: Record<string, unknown>; text: string }> {
  const command = planCommand.commands.find((candidate) => candidate.name === name);
  assert.ok(command !== undefined && !isGroup(command), name);
  const parsed = parseArguments(args, (command as Command).options, (command as Command).positionals);
  const context: Context = {
    options: parsed.values as Context['options'],
    positionals: parsed.positionals,
    json: parsed.json,
    style: makeStyle(false),
    width: 100,
    progress() {},
    screen() {},
    interactive: false,
    signal: new AbortController().signal,
  };
  const outcome = await (command as Command).run(context);
  return {
    document: JSON.parse(JSON.stringify(outcome.document)) as Record<string, unknown>,
    text: typeof outcome.text === 'string' ? outcome.text : outcome.text(),
  };
}

const questions: [string, ...string[]][] = [
  ['topology', 'fat-tree', '--radix', '48'],
  ['compare', '--endpoints', '256', '--radix', '32'],
  ['collective', 'allreduce', '--topology', 'dragonfly:p=2', '--size', '1MiB'],
  ['train', '--model', 'gpt3-13b', '--cluster', 'dgx-h100:64'],
  ['a800'],
  ['threshold', '--link', 'edr'],
  ['ps', '--workers', '8'],
  ['compression'],
  ['latency', '--op', 'read'],
  ['packets'],
  ['roofline'],
  ['amdahl'],
  ['energy'],
  ['calibrate', '--ranks', '2', '--call-ms', '5'],
];

test('every plan command answers as text, as JSON, and as a page that needs nothing from outside', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'verbena-plan-'));
  try {
    for (const [name, ...args] of questions) {
      const file = join(folder, `${name}.html`);
      const { document, text } = await plan(name, ...args, '--html', file);
      assert.ok(text.includes('│') && text.includes(`written: ${file}`), name);
      assert.equal(document['html'], file);
      const page = readFileSync(file, 'utf8');
      assert.ok(page.startsWith('<!doctype html>') && page.includes('</html>'), name);
      assert.doesNotMatch(page, /<script|<link|<img|url\(\s*['"]?http|src=/, `${name}: self-contained`);
      assert.doesNotMatch(page, /NaN|undefined|Infinity/, `${name}: holes in the page`);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('every question of the list has its command, and every command its example and question', () => {
  assert.deepEqual(questions.map(([name]) => name).sort(), planCommand.commands.map((command) => command.name).sort());
  for (const command of planCommand.commands)
    assert.ok(
      command.examples.length > 0 && command.examples.every(({ line }) => line.startsWith(`verbena plan ${command.name}`)),
      command.name,
    );
});

test('the numbers people know come out: 27,648 hosts, 29.4 KB on EDR, 4.4 W a polling core', async () => {
  assert.equal((await plan('topology', 'fat-tree', '--radix', '48')).document['endpoints'], 27_648);
  assert.match((await plan('threshold', '--link', 'edr')).text, /29\.4 KB/);
  assert.match((await plan('energy')).text, /4\.4 W/);
  assert.match((await plan('packets')).text, /133 M/);
});

test('refusals name the reason and the nearest legal value', async () => {
  await assert.rejects(plan('topology', 'fat-tree', '--radix', '7'), /odd.*nearest legal value: 8/);
  await assert.rejects(plan('topology', 'fat-tree', '--radix', '8', '--q', '5'), /no parameter "q"/);
  await assert.rejects(plan('topology', 'fat-treee:radix=8'), /nearest legal value: fat-tree/);
  await assert.rejects(plan('train', '--model', 'gpt3-175b', '--cluster', 'dgx-a100:8'), /does not fit/);
  await assert.rejects(plan('train', '--tensor', '128'), /above the 96 heads/);
  await assert.rejects(plan('collective', 'allreduse', '--topology', 'ring:n=4'), /no collective/);
});

const browser = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((path) => existsSync(path));

test('a browser draws the page', {
  skip: browser === undefined ? 'no Chromium on this machine (apt-get install chromium)' : false,
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'verbena-plan-'));
  try {
    const [file, picture] = [join(folder, 'report.html'), join(folder, 'report.png')];
    await plan('collective', 'allreduce', '--topology', 'fat-tree:radix=4', '--size', '1MiB', '--html', file);
    const drawn = spawnSync(
      browser as string,
      [
        '--headless',
        '--no-sandbox',
        '--disable-gpu',
        '--hide-scrollbars',
        `--user-data-dir=${join(folder, 'profile')}`,
        '--window-size=1300,1600',
        `--screenshot=${picture}`,
        `file://${file}`,
      ],
      { timeout: 40_000 },
    );
    assert.equal(drawn.status, 0, String(drawn.stderr));
    // an empty page of this size compresses to a few kilobytes
    assert.ok(statSync(picture).size > 60_000, `${statSync(picture).size} bytes`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
