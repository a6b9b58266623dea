/**
 * Ranks on two hosts: each a network namespace and a process namespace of its own, joined by a virtual cable. What one host cannot show: a coordinator that is
 * reached over a network, heartbeats, a cable that is cut, an address that does not work.
 */

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { describe, test } from 'node:test';
import { ACTOR, type Running, Stage, VERBENA } from '../launch/job.js';
import { signalInside, twoHosts } from './two-hosts.js';

const SECRET = '0123456789abcdef0123456789abcdef';
const { skip, addresses, inside, cable } = twoHosts();
const hasUcx = existsSync('/usr/include/ucp/api/ucp.h');

/** Rank `rank` of `size`, on host 0 or 1. */
function start(
  stage: Stage,
  host: number,
  rank: number,
  size: number,
  words: readonly string[],
  env: Record<string, string> = {},
): Running {
  return stage.start('ip', [...inside(host), process.execPath, VERBENA, 'exec', ACTOR, ...words], {
    RANK: String(rank),
    WORLD_SIZE: String(size),
    MASTER_ADDR: addresses[0],
    MASTER_PORT: '29517',
    VERBENA_SECRET: SECRET,
    ...env,
  });
}

function hostsTest(name: string, body: (stage: Stage) => Promise<void>): void {
  test(name, { skip, timeout: 120_000 }, async () => {
    const stage = new Stage();
    try {
      await body(stage);
      await stage.assertNothingLeft();
    } finally {
      await stage.abandon();
      stage.remove();
    }
  });
}

describe('ranks on two hosts', () => {
  hostsTest('find each other and know that they are on two', async (stage) => {
    const ranks = [start(stage, 0, 0, 2, ['hello']), start(stage, 1, 1, 2, ['hello'])];
    for (const rank of ranks) assert.equal((await rank.ended).code, 0, rank.stdout + rank.stderr);
    const hello = ranks.flatMap((rank) => rank.heard<{ rank: number; hosts: number; host: number; localSize: number }>('hello'));
    assert.deepEqual(hello.map(({ rank, hosts, host, localSize }) => [rank, hosts, host, localSize]).sort(), [
      [0, 2, 0, 1],
      [1, 2, 1, 1],
    ]);
  });

  hostsTest('say that shared memory does not join them', async (stage) => {
    const ranks = [start(stage, 0, 0, 2, ['providers']), start(stage, 1, 1, 2, ['providers'])];
    for (const rank of ranks) assert.equal((await rank.ended).code, 0, rank.stdout + rank.stderr);
    const [{ explained }] = ranks[0].heard<{ explained: string[] }>('providers');
    assert.match(explained[0], /shm: they share a machine, but not the process namespace .*--pid=container/);
  });

  hostsTest('send messages to each other over the network', async (stage) => {
    const ranks = [0, 1, 2].map((rank) => start(stage, rank % 2, rank, 3, ['ring']));
    for (const rank of ranks) assert.equal((await rank.ended).code, 0, rank.stdout + rank.stderr);
    for (const rank of ranks) assert.ok(rank.heard<{ right: boolean }>('ring')[0].right);
  });

  hostsTest('exchange small and large messages over the network, every rank with every other', async (stage) => {
    const ranks = [0, 1, 2].map((rank) => start(stage, rank % 2, rank, 3, ['mesh']));
    for (const rank of ranks) assert.equal((await rank.ended).code, 0, rank.stdout + rank.stderr);
    const said = ranks.flatMap((rank) => rank.heard<{ rank: number; right: boolean; providers: Record<string, string> }>('mesh'));
    assert.ok(said.every(({ right }) => right));
    // Each rank has a process namespace of its own here, so no two share memory: the network joins all of them.
    for (const { providers } of said) assert.deepEqual([...new Set(Object.values(providers))], ['roce']);
    for (const { stderr } of ranks) {
      assert.deepEqual(stderr.match(/VERBENA_FALLBACK/g)?.length, 1, 'said once');
      assert.match(stderr, /goes by roce.* instead of shm.*\(and so to 1 more hosts\)/);
    }
  });

  hostsTest('test their addresses: the cable works, a wrong address is named', async (stage) => {
    const good = [0, 1].map((rank) => start(stage, rank, rank, 2, ['connectivity', 'own']));
    for (const rank of good) assert.equal((await rank.ended).code, 0, rank.stdout + rank.stderr);
    const [{ separated, paths }] = good[0].heard<{ separated: unknown[]; paths: { address: string; interface: string }[] }>(
      'paths',
    );
    assert.deepEqual(separated, []);
    assert.deepEqual(
      [...new Set(paths.map(({ address }) => address))].filter((address) => address.startsWith('10.')).sort(),
      addresses,
    );
    assert.ok(paths.every((path) => path.interface === 'veth0'));
    const bad = [0, 1].map((rank) => start(stage, rank, rank, 2, ['connectivity', '127.0.0.1']));
    for (const rank of bad) assert.equal((await rank.ended).code, 0, rank.stdout + rank.stderr);
    const [wrong] = bad[0].heard<{ separated: unknown[]; error: string }>('paths');
    assert.deepEqual(wrong.separated, [
      { from: 0, to: 1 },
      { from: 1, to: 0 },
    ]);
    assert.match(wrong.error, /rank 0 to rank 1 on 127\.0\.0\.1 \(fake0\): ECONNREFUSED.*VERBENA_INTERFACE/);
  });

  hostsTest('learn of a killed rank on the other host before its silence tells', async (stage) => {
    const ranks = [start(stage, 0, 0, 2, ['watch']), start(stage, 1, 1, 2, ['watch'])];
    await Promise.all(ranks.map((rank) => rank.hear('ready', 1)));
    ranks[1].process.kill('SIGKILL'); // unshare goes, and --kill-child takes the rank with it
    const killedAtMs = Date.now();
    const [{ lost, atMs }] = await ranks[0].hear<{ lost: { rank: number }[]; atMs: number }>('saw', 1);
    assert.deepEqual(
      lost.map(({ rank }) => rank),
      [1],
    );
    assert.ok(atMs - killedAtMs < 5000, `${atMs - killedAtMs} ms`); // the silence of a host takes 10 s
    await Promise.all(ranks.map(({ ended }) => ended));
  });

  hostsTest('take a host that fell silent for vanished, on both sides of the cut', async (stage) => {
    const env = { VERBENA_HEARTBEAT_MS: '100', VERBENA_SILENCE_MS: '2000' };
    const ranks = [start(stage, 0, 0, 2, ['watch'], env), start(stage, 1, 1, 2, ['watch'], env)];
    await Promise.all(ranks.map((rank) => rank.hear('ready', 1)));
    cable('down');
    const cutAtMs = Date.now();
    const saw = await Promise.all(
      ranks.map((rank) => rank.hear<{ lost: { rank: number; reason: string }[]; atMs: number }>('saw', 1)),
    );
    cable('up');
    saw.flat().forEach(({ lost, atMs }, rank) => {
      assert.equal(lost[0].rank, 1 - rank);
      assert.match(lost[0].reason, /no word from its host for 2000 ms/);
      assert.ok(atMs - cutAtMs < 10_000, `${atMs - cutAtMs} ms`);
    });
    await Promise.all(ranks.map(({ ended }) => ended));
  });

  // Silence is asked about after 10 s (keepaliveMs).
  const UCX = { VERBENA_ENGINE: 'ucx', UCX_TLS: 'tcp', UCX_NET_DEVICES: 'veth0' };
  for (const [engine, env] of [['verbs', {}] as const, ...(hasUcx ? [['ucx', UCX] as const] : [])]) {
    hostsTest(`wait for a rank that computes longer than a silent peer may be silent, on ${engine}`, async (stage) => {
      const ranks = [0, 1].map((rank) => start(stage, rank, rank, 2, ['absent', '15'], env));
      const [{ word }] = await ranks[0].hear<{ word: string }>('ended', 1, 90_000);
      assert.equal(word, 'came');
      for (const rank of ranks) assert.equal((await rank.ended).code, 0, rank.stdout + rank.stderr);
    });

    hostsTest(`lose what depends on a rank behind a cut cable, whatever it does there, on ${engine}`, async (stage) => {
      const silence = { VERBENA_HEARTBEAT_MS: '100', VERBENA_SILENCE_MS: '2000' };
      const ranks = [0, 1].map((rank) => start(stage, rank, rank, 2, ['absent', '15'], { ...env, ...silence }));
      await ranks[1].hear('ready', 1);
      cable('down');
      const [{ word }] = await ranks[0].hear<{ word: string }>('ended', 1, 90_000);
      cable('up');
      assert.equal(word, 'MSG_PEER_LOST');
      await Promise.all(ranks.map(({ ended }) => ended));
    });
  }

  hostsTest('take a rank that was stopped for lost, which hears of it when it goes on', async (stage) => {
    const env = { VERBENA_HEARTBEAT_MS: '100', VERBENA_SILENCE_MS: '2000' };
    const ranks = [start(stage, 0, 0, 2, ['listen'], env), start(stage, 1, 1, 2, ['listen'], env)];
    await Promise.all(ranks.map((rank) => rank.hear('ready', 1)));
    signalInside(ranks[1].process, 'SIGSTOP');
    type Saw = { lost: { rank: number; reason: string }[]; errors: string[] };
    const [seen] = await ranks[0].hear<Saw>('saw', 1);
    signalInside(ranks[1].process, 'SIGCONT');
    const [own] = await ranks[1].hear<Saw>('saw', 1);
    for (const { lost } of [seen, own]) {
      assert.equal(lost[0].rank, 1);
      assert.match(lost[0].reason, /no word from its host for 2000 ms/);
    }
    assert.match(seen.errors[0], /^rank 1 \(pid \d+ on .*\) is lost: no word/);
    assert.match(own.errors[0], /^the other ranks took this one for dead and go on without it: no word/);
    await Promise.all(ranks.map(({ ended }) => ended));
  });
});
