/**
 * Training between two hosts, each a network namespace and a process namespace of its own, joined by a virtual cable: a rank is killed, and a newcomer on its host takes its place.
 */

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type Running, Stage, VERBENA } from '../launch/job.js';
import { survive } from '../train/survival.js';
import { twoHosts } from './two-hosts.js';

const SEED = Number(process.env['VERBENA_SEED'] ?? Date.now() % 1_000_000);
const hosts = twoHosts();
const inside = (rank: number) => ['ip', ...hosts.inside(rank % 2)];

test(`a rank on another host is killed, and a newcomer there takes its place with the state of the others, seed ${SEED}`, {
  skip: hosts.skip,
  timeout: 400_000,
}, async () => {
  for (let round = 0; round < 3; round++) {
    const { joined } = await survive(SEED + round, 2 + (round % 2), { kills: 1, replace: true, over: 'roce:veth0', inside });
    assert.equal(joined, 1);
  }
});

test(`a rank on another host that stays stopped is left out, and ends with a named error when it goes on, seed ${SEED}`, {
  skip: hosts.skip,
  timeout: 400_000,
}, async () => {
  for (let round = 0; round < 3; round++) {
    const options = { kills: 1, replace: round === 2, over: 'roce:veth0', inside, stoppedMs: 3000 };
    const { lost } = await survive(SEED + 10 + round, 2 + (round % 2), options);
    assert.equal(lost, 1);
  }
});

const ABSENT = fileURLToPath(new URL('../train/scenarios/absent-worker.js', import.meta.url));
const SECRET = '0123456789abcdef0123456789abcdef';
const UCX = { VERBENA_ENGINE: 'ucx', UCX_TLS: 'tcp', UCX_NET_DEVICES: 'veth0' };
const lacksUcx = !existsSync('/usr/include/ucp/api/ucp.h') && 'needs apt-get install libucx-dev';

interface Ended {
  readonly samples?: number;
  readonly ranks?: number;
  readonly message?: string;
  readonly lost: { rank: number; reason: string }[];
}

type ServersBody = (ranks: readonly Running[]) => Promise<void>;

/** Two ranks train over parameter servers; the second computes for `seconds` in the middle. */
function serversTest(name: string, seconds: number, onLoss: 'shrink' | 'throw', body: ServersBody): void {
  for (const [provider, env] of Object.entries({ 'roce:veth0': {}, ucx: UCX })) {
    test(`${name}, on ${provider}`, { skip: hosts.skip || (provider === 'ucx' && lacksUcx), timeout: 120_000 }, async () => {
      const stage = new Stage();
      const start = (rank: number) => {
        const words = [...hosts.inside(rank), process.execPath, VERBENA, 'exec', ABSENT, provider, String(seconds), onLoss];
        const job = { WORLD_SIZE: '2', MASTER_ADDR: hosts.addresses[0], MASTER_PORT: '29518', VERBENA_SECRET: SECRET };
        const silence = { VERBENA_HEARTBEAT_MS: '100', VERBENA_SILENCE_MS: '3000' };
        return stage.start('ip', words, { RANK: String(rank), ...job, ...silence, ...env }, 100_000);
      };
      try {
        await body([start(0), start(1)]);
        await stage.assertNothingLeft();
      } finally {
        hosts.cable('up');
        await stage.abandon();
        stage.remove();
      }
    });
  }
}

// Silence is asked about after 10 s (keepaliveMs).
serversTest(
  'a worker that computes longer than a silent peer may be silent is no loss to servers',
  15,
  'shrink',
  async (ranks) => {
    for (const rank of ranks) assert.equal((await rank.ended).code, 0, rank.stdout + rank.stderr);
    const [first, second] = ranks.map((rank) => rank.heard<Ended>('ended')[0]);
    assert.equal(first.samples, 96);
    assert.deepEqual(second, first);
  },
);

/** What the first rank ended with when the second, which would compute for much longer, is gone. */
async function without(ranks: readonly Running[], lose: () => void): Promise<Ended> {
  await Promise.all(ranks.map((rank) => rank.hear('ready', 1)));
  lose();
  const [ended] = await ranks[0].hear<Ended>('ended', 1, 60_000);
  assert.equal(ended.lost[0].rank, 1);
  ranks[1].process.kill('SIGKILL');
  assert.equal((await ranks[0].ended).code, 0, ranks[0].stderr);
  await ranks[1].ended;
  return ended;
}

serversTest('a worker that is killed while it computes is lost, and servers go on without it', 90, 'shrink', async (ranks) => {
  const { message, samples, ranks: left } = await without(ranks, () => ranks[1].process.kill('SIGKILL'));
  assert.equal(message, undefined);
  assert.deepEqual([samples, left], [2 * 24 + 2 * 12, 1]);
});

serversTest('a worker that is cut off while it computes is lost to servers, by name', 90, 'throw', async (ranks) => {
  const { message, lost } = await without(ranks, () => hosts.cable('down'));
  assert.match(lost[0].reason, /no word from its host for 3000 ms/);
  assert.match(message as string, /rank 1 is lost/);
});
