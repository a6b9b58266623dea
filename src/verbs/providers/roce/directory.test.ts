import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, it } from 'node:test';
import { VerbsError } from '../../errors.js';
import { Directory } from './directory.js';

const code = (wanted: string) => (error: unknown) => VerbsError.is(error) && error.code === wanted;

describe('names of listeners', () => {
  const directory = new Directory('test');
  const name = `a/b c ${process.pid}`;
  const av = { gid: '::ffff:127.0.0.1', port: 5000 };

  it('are found until they are removed, and taken once', async () => {
    directory.add(name, av);
    assert.deepEqual(await directory.find(name, 5000), av);
    assert.throws(() => new Directory('test').add(name, av), code('VERBS_BUSY'));
    await assert.rejects(new Directory('other').find(name, 5000), code('VERBS_NO_DEVICE'));
    await assert.rejects(directory.find('a', 5000), code('VERBS_NO_DEVICE'));
    directory.remove(name);
    await assert.rejects(directory.find(name, 5000), code('VERBS_NO_DEVICE'));
    directory.add(name, av);
    directory.remove(name);
  });

  it('of a killed process are free', async () => {
    const script = `
      const { Directory } = await import(${JSON.stringify(new URL('./directory.js', import.meta.url).href)});
      new Directory('test').add(${JSON.stringify(name)}, ${JSON.stringify(av)});
      console.log('added');
      setInterval(() => {}, 1000);`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
    await once(child.stdout, 'data');
    assert.deepEqual(await directory.find(name, 5000), av);
    child.kill('SIGSTOP');
    await assert.rejects(directory.find(name, 50), code('VERBS_TIMEOUT'));
    child.kill('SIGKILL');
    await once(child, 'exit');
    await assert.rejects(directory.find(name, 5000), code('VERBS_NO_DEVICE'));
    directory.add(name, av);
    directory.remove(name);
  });
});
