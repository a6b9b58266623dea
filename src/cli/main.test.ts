import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { main } from './main.js';

async function run(...args: string[]) {
  const out: string[] = [];
  const err: string[] = [];
  const code = await main(args, {
    stdout: { write: (text) => out.push(text) },
    stderr: { write: (text) => err.push(text) },
  });
  return { code, out: out.join(''), err: err.join('') };
}

describe('The program', () => {
  it('prints its version', async () => {
    assert.match((await run('--version')).out, /^\d+\.\d+\.\d+\n$/);
    assert.match(JSON.parse((await run('--version', '--json')).out).version, /^\d/);
  });

  it('shows the commands with --help, and with no command at all, which is a mistake', async () => {
    const help = await run('--help');
    assert.equal(help.code, 0);
    assert.match(help.out, /doctor/);
    assert.equal((await run()).code, 2);
    assert.equal((await run('help', 'bench', 'verbs')).code, 0);
  });

  it('ends with 2 and a hint when the command is unknown', async () => {
    const { code, out, err } = await run('docotr');
    assert.equal(code, 2);
    assert.equal(out, '');
    assert.match(err, /did you mean 'doctor'\?/);
    assert.doesNotMatch((await run('zzzzzz')).err, /host-agent/);
  });

  it('names the command whose help would help', async () => {
    assert.match((await run('bench', 'verbs', '--nonsense')).err, /See verbena bench verbs --help/);
  });

  it('prints one JSON document on stdout also when it fails', async () => {
    const { code, out } = await run('bench', 'verbs', '--size', 'huge', '--json');
    assert.equal(code, 2);
    assert.deepEqual(Object.keys(JSON.parse(out)), ['error']);
    assert.equal(JSON.parse(out).error.code, 'USAGE');
  });

  it('prints help as JSON when asked to', async () => {
    assert.match(JSON.parse((await run('bench', 'verbs', '--help', '--json')).out).help, /Usage/);
    assert.match(JSON.parse((await run('--json', 'bench', 'verbs', '--help')).out).help, /Usage/);
  });

  it('takes --json before the command', async () => {
    const { out } = await run('--json', 'top', '--once', '--interval', '0.05');
    assert.ok(Array.isArray(JSON.parse(out).devices));
  });
});
