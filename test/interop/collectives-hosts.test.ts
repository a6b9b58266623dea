/**
 * Collectives between two hosts, each a network namespace and a process namespace of its own with two ranks, joined by a virtual cable: messages go over the network between
 * the hosts and over shared memory inside, and a rank that is killed is named on both.
 */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type Running, Stage, VERBENA } from '../launch/job.js';

const ROLES = fileURLToPath(new URL('../collectives/scenarios/world.js', import.meta.url));
const names = [`verbena-c-${process.pid}`, `verbena-d-${process.pid}`];
const addresses = ['10.231.8.1', '10.231.8.2'];

function ip(...words: string[]): boolean {
  const [command, ...rest] = ['ip', ...words];
  return spawnSync(command, rest, { stdio: 'ignore' }).status === 0;
}

const skip =
  process.getuid?.() !== 0
    ? 'network namespaces need root'
    : !(ip('netns', 'add', `${names[0]}-try`) && ip('netns', 'del', `${names[0]}-try`)) &&
      'this machine allows no network namespaces';

before(() => {
  if (skip) return;
  for (const name of names) assert.ok(ip('netns', 'add', name));
  assert.ok(ip('link', 'add', 'cable', 'netns', names[0], 'type', 'veth', 'peer', 'name', 'cable', 'netns', names[1]));
  for (const [i, name] of names.entries()) {
    assert.ok(ip('-n', name, 'address', 'add', `${addresses[i]}/24`, 'dev', 'cable'));
    assert.ok(ip('-n', name, 'link', 'set', 'cable', 'up'));
    assert.ok(ip('-n', name, 'link', 'set', 'lo', 'up'));
  }
});
after(() => {
  if (!skip) for (const name of names) ip('netns', 'del', name);
});

/** Two ranks on host 0 or 1. */
function start(stage: Stage, host: number, words: readonly string[]): Running {
  const inside = ['netns', 'exec', names[host], 'unshare', '--pid', '--fork', '--kill-child', '--mount-proc'];
  const rank = (r: number): string => `RANK=${r} "${process.execPath}" "${VERBENA}" exec "${ROLES}" ${words.join(' ')}`;
  const both = `${rank(2 * host)} & ${rank(2 * host + 1)}; code=$?; wait; exit $code`;
  return stage.start('ip', [...inside, 'sh', '-c', both], {
    WORLD_SIZE: '4',
    MASTER_ADDR: addresses[0],
    MASTER_PORT: '29518',
    VERBENA_SECRET: '0123456789abcdef0123456789abcdef',
  });
}

async function onTwoHosts(
  words: readonly string[],
  body: (heard: <T>(type: string) => T[], text: () => string) => void,
): Promise<void> {
  const stage = new Stage();
  try {
    const hosts = [start(stage, 0, words), start(stage, 1, words)];
    for (const host of hosts) await host.ended;
    body(
      <T>(type: string) => hosts.flatMap((host) => host.heard<T>(type)),
      () => hosts.map(({ stdout, stderr }) => stdout + stderr).join('\n'),
    );
    await stage.assertNothingLeft(5000);
  } finally {
    await stage.abandon();
    stage.remove();
  }
}

test('collectives run between two hosts over the network, and over shared memory inside', { skip, timeout: 90_000 }, async () => {
  await onTwoHosts(['hosts'], (heard, text) => {
    const done = heard<{ providers: string[]; chosen: Record<string, string> }>('done');
    assert.equal(done.length, 4, text());
    for (const { providers, chosen } of done) {
      assert.deepEqual(providers, ['roce', 'shm']);
      assert.match(chosen['allreduce'], /^hierarchical/);
    }
  });
});

test('a rank killed on one host is named on both, and the others go on', { skip, timeout: 90_000 }, async () => {
  await onTwoHosts(['killed'], (heard, text) => assert.equal(heard('heard').length, 3, text()));
});
