/**
 * Datasets between two hosts, each a network namespace and a process namespace of its own with two ranks, joined by a virtual cable: blocks are READ as RoCE packets, or
 * fetched over TCP.
 */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Stage, VERBENA } from '../launch/job.js';

const ACTOR = fileURLToPath(new URL('../dataset/scenarios/actor.js', import.meta.url));
const names = [`verbena-e-${process.pid}`, `verbena-f-${process.pid}`];
const addresses = ['10.231.9.1', '10.231.9.2'];

function ip(...words: string[]): boolean {
  return spawnSync('ip', words, { stdio: 'ignore' }).status === 0;
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

for (const [i, shuffle] of ['sort-tcp', 'rdma'].entries()) {
  test(`columns, joins and sorts give the same between two hosts (${shuffle})`, { skip, timeout: 120_000 }, async () => {
    const stage = new Stage();
    const folder = mkdtempSync(join(tmpdir(), 'verbena-dataset-'));
    try {
      const rank = (r: number): string =>
        `RANK=${r} "${process.execPath}" "${VERBENA}" exec "${ACTOR}" columns '${JSON.stringify({ shuffle })}' "${folder}"`;
      const hosts = names.map((name, host) => {
        const inside = ['netns', 'exec', name, 'unshare', '--pid', '--fork', '--kill-child', '--mount-proc'];
        const both = `${rank(2 * host)} & ${rank(2 * host + 1)}; code=$?; wait; exit $code`;
        return stage.start('ip', [...inside, 'sh', '-c', both], {
          WORLD_SIZE: '4',
          MASTER_ADDR: addresses[0],
          MASTER_PORT: String(29_520 + i),
          VERBENA_SECRET: '0123456789abcdef0123456789abcdef',
        });
      });
      for (const host of hosts) await host.ended;
      const [passed] = hosts[0].heard<{ usage: { bytesRead: number } }>('passed');
      assert.ok(passed, hosts.map(({ stdout, stderr }) => stdout + stderr).join('\n'));
      assert.ok(passed.usage.bytesRead > 0, 'blocks came from other ranks');
      await stage.assertNothingLeft(5000);
    } finally {
      await stage.abandon();
      stage.remove();
      rmSync(folder, { recursive: true, force: true });
    }
  });
}
