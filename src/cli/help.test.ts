import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type AnyCommand, isGroup } from './command.js';
import { helpText, wrap } from './help.js';
import { loadRoot } from './registry.js';
import { makeStyle } from './style.js';

async function everyCommand(): Promise<{ command: AnyCommand; path: string[] }[]> {
  const all: { command: AnyCommand; path: string[] }[] = [];
  const visit = (command: AnyCommand, path: string[]) => {
    all.push({ command, path });
    if (isGroup(command)) for (const child of command.commands) visit(child, [...path, child.name]);
  };
  visit(await loadRoot(), ['verbena']);
  return all;
}

describe('The help', () => {
  it('breaks lines at spaces and leaves indented lines alone', () => {
    assert.equal(wrap('one two three', 8), 'one two\nthree');
    assert.equal(wrap('one two', 10, '  '), '  one two');
    assert.equal(wrap('a\n   code   kept as it is', 8), 'a\n   code   kept as it is');
    assert.equal(wrap('one\ntwo\n\nthree', 80), 'one two\n\nthree');
  });

  it('of every command has examples with its own words, also behind a launcher that starts it', async () => {
    for (const { command, path } of await everyCommand()) {
      if ('hidden' in command && command.hidden) continue;
      assert.ok(command.examples.length > 0, `${path.join(' ')} has no example`);
      for (const { line } of command.examples) assert.ok(line.includes(path.join(' ')), `'${line}' under ${path.join(' ')}`);
    }
  });

  it('of every command names all its options and fits the terminal', async () => {
    for (const { command, path } of await everyCommand()) {
      const text = helpText(command, path, makeStyle(false), 100);
      if (!isGroup(command)) {
        for (const name of Object.keys(command.options))
          assert.ok(text.includes(`--${name}`), `${path.join(' ')} hides --${name}`);
      }
      for (const line of text.split('\n')) {
        if (!line.includes('verbena ')) assert.ok([...line].length <= 110, `too long in ${path.join(' ')}: ${line}`);
      }
    }
  });

  it('summaries are one line without a full stop', async () => {
    for (const { command } of await everyCommand()) assert.match(command.summary, /^[^\n]+[^.\n]$/);
  });
});
