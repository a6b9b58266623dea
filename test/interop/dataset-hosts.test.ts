/**
 * Datasets between two hosts, each a network namespace and a process namespace of its own with two ranks, joined by a virtual cable: blocks are READ as RoCE packets, or
 * fetched over TCP.
 */

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Stage, VERBENA } from '../launch/job.js';
import { twoHosts } from './two-hosts.js';

const ACTOR = fileURLToPath(new URL('../dataset/scenarios/actor.js', import.meta.url));
const { skip, addresses, inside } = twoHosts();

for (const [i, shuffle] of ['sort-tcp', 'rdma'].entries()) {
  test(`columns, joins and sorts give the same between two hosts (${shuffle})`, { skip, timeout: 120_000 }, async () => {
    const stage = new Stage();
    const folder = mkdtempSync(join(tmpdir(), 'verbena-dataset-'));
    try {
      const rank = (r: number): string =>
        `RANK=${r} "${process.execPath}" "${VERBENA}" exec "${ACTOR}" columns '${JSON.stringify({ shuffle })}' "${folder}"`;
      const hosts = [0, 1].map((host) => {
        const both = `${rank(2 * host)} & ${rank(2 * host + 1)}; code=$?; wait; exit $code`;
        return stage.start('ip', [...inside(host), 'sh', '-c', both], {
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
      await stage.assertNothingLeft();
    } finally {
      await stage.abandon();
      stage.remove();
      rmSync(folder, { recursive: true, force: true });
    }
  });
}
