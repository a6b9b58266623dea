/** `verbena run --hosts` over a real sshd of this machine, on a port of its own, with keys of its own. */

import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { ACTOR, type Running, Stage, until, VERBENA } from '../launch/job.js';
import { freePort } from './own-network.js';

const SSHD = '/usr/sbin/sshd';
const { ensureCommands } = (await import(new URL('../../../scripts/system-packages.mjs', import.meta.url).href)) as {
  ensureCommands(packages: Record<string, string>): string[];
};
if (!existsSync(SSHD)) ensureCommands({ sshd: 'openssh-server', ssh: 'openssh-client' });
const skip = !existsSync(SSHD) && 'sshd is not installed';

const directory = mkdtempSync(join(tmpdir(), 'verbena-sshd-'));
let daemon: ChildProcess | undefined;
let ssh = '';

before(async () => {
  if (skip) return;
  const file = (name: string) => join(directory, name);
  const [keygen, ...options] = ['ssh-keygen', '-q', '-t', 'ed25519', '-N', ''];
  for (const name of ['host', 'user']) execFileSync(keygen, [...options, '-f', file(name)]);
  writeFileSync(file('authorized'), readFileSync(file('user.pub')), { mode: 0o600 });
  const port = await freePort();
  writeFileSync(
    file('sshd_config'),
    [
      `Port ${port}`,
      'ListenAddress 127.0.0.1',
      `HostKey ${file('host')}`,
      `AuthorizedKeysFile ${file('authorized')}`,
      `PidFile ${file('sshd.pid')}`,
      'StrictModes no',
      'UsePAM no',
      'PasswordAuthentication no',
      'PermitRootLogin yes',
      '',
    ].join('\n'),
  );
  if (process.getuid?.() === 0) mkdirSync('/run/sshd', { recursive: true });
  daemon = spawn(SSHD, ['-D', '-e', '-f', file('sshd_config')], { stdio: ['ignore', 'ignore', 'ignore'] });
  ssh = `ssh -p ${port} -i ${file('user')} -o StrictHostKeyChecking=no -o UserKnownHostsFile=${file('known')} -o LogLevel=ERROR`;
  const works = () => {
    try {
      const [command, ...args] = ssh.split(' ');
      return execFileSync(command, [...args, '127.0.0.1', 'true'], { stdio: 'ignore' }) !== undefined;
    } catch {
      return false;
    }
  };
  await until('sshd takes connections', works);
});
after(() => {
  daemon?.kill();
  rmSync(directory, { recursive: true, force: true });
});

/** Agents of `verbena run --hosts` of this clone that run on this machine. */
function agents(): string[] {
  return readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(`${VERBENA}\0host-agent`);
    } catch {
      return false;
    }
  });
}

function sshTest(name: string, body: (run: (words: readonly string[]) => Running, stage: Stage) => Promise<void>): void {
  test(name, { skip, timeout: 60_000 }, async () => {
    const stage = new Stage();
    // The environment does not travel; the mark by which processes are found does.
    const run = (words: readonly string[]) => stage.verbena(['run', '--env', stage.mark, ...words], { VERBENA_SSH: ssh });
    try {
      await body(run, stage);
      await until('agents have ended', () => agents().length === 0);
      await stage.assertNothingLeft();
    } finally {
      await stage.abandon();
      stage.remove();
    }
  });
}

describe('ranks by ssh', () => {
  sshTest('find each other across connections, with their output and their stdin', async (run) => {
    const job = run(['--hosts', '127.0.0.1:2,localhost:1', ACTOR, 'hello']);
    assert.deepEqual(await job.ended, { code: 0, signal: null }, job.stdout + job.stderr);
    assert.deepEqual(
      job
        .heard<{ rank: number; size: number }>('hello')
        .map(({ rank, size }) => [rank, size])
        .sort(),
      [
        [0, 3],
        [1, 3],
        [2, 3],
      ],
    );
    const echo = run(['--hosts', '127.0.0.1,localhost', ACTOR, 'echo']);
    echo.process.stdin?.end('over ssh\n');
    assert.deepEqual(await echo.ended, { code: 0, signal: null }, echo.stdout + echo.stderr);
    assert.deepEqual(
      echo.heard('read').map(({ line }) => line),
      ['over ssh'],
    );
  });

  sshTest('that fail are named with their host and last lines, and the others end', async (run) => {
    const job = run(['--hosts', '127.0.0.1:1,localhost:2', ACTOR, 'fail', '2', '6']);
    assert.deepEqual(await job.ended, { code: 6, signal: null }, job.stderr);
    assert.match(job.stderr, /rank 2 \(pid \d+ on localhost\) exited with code 6; its last lines:[\s\S]*\| line 29/);
  });

  sshTest('get signals', async (run) => {
    const job = run(['--hosts', '127.0.0.1:2', ACTOR, 'signals']);
    await job.hear('ready', 2);
    job.process.kill('SIGINT');
    assert.deepEqual(await job.ended, { code: 130, signal: null });
    assert.equal(job.heard('signal').length, 2);
  });

  sshTest('end when the launcher is killed', async (run) => {
    const job = run(['--hosts', '127.0.0.1:1,localhost:1', ACTOR, 'stubborn']);
    await job.hear('ready', 2);
    job.process.kill('SIGKILL');
    await job.ended;
  });

  sshTest('on a host that cannot be reached are an error that says what to do', async (run) => {
    const job = run(['--hosts', '127.0.0.1:1,no-such-host.invalid:1', ACTOR, 'hello']);
    assert.deepEqual(await job.ended, { code: 1, signal: null });
    assert.match(
      job.stderr,
      /host no-such-host\.invalid cannot start ranks: ssh ended with 255.*Check that `ssh no-such-host\.invalid` works/,
    );
  });

  sshTest('on a host without verbena are an error that says what to do', async (_, stage) => {
    const job = stage.verbena(['run', '--hosts', '127.0.0.1', ACTOR, 'hello'], {
      VERBENA_SSH: ssh,
      VERBENA_REMOTE_COMMAND: '/nowhere/verbena',
    });
    assert.deepEqual(await job.ended, { code: 1, signal: null });
    assert.match(job.stderr, /host 127\.0\.0\.1 cannot start ranks: ssh ended with 127 .*VERBENA_REMOTE_COMMAND/);
  });
});
