/**
 * Collectives between two hosts, each a network namespace and a process namespace of its own with two ranks, joined by a virtual cable: messages go over the network between
 * the hosts and over shared memory inside, and a rank that is killed is named on both.
 */

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type Running, Stage, VERBENA } from '../launch/job.js';
import { twoHosts } from './two-hosts.js';

const ROLES = fileURLToPath(new URL('../collectives/scenarios/world.js', import.meta.url));
/** Four ranks with an engine each, perhaps on two cores that others use as well. */
const LIMIT_MS = 200_000;
const { skip, addresses, inside } = twoHosts();

/** Two ranks on host 0 or 1. */
function start(stage: Stage, host: number, words: readonly string[], engine: string): Running {
  const rank = (r: number): string => `RANK=${r} "${process.execPath}" "${VERBENA}" exec "${ROLES}" ${words.join(' ')}`;
  const both = `${rank(2 * host)} & ${rank(2 * host + 1)}; code=$?; wait; exit $code`;
  const env = {
    WORLD_SIZE: '4',
    MASTER_ADDR: addresses[0],
    MASTER_PORT: '29518',
    VERBENA_SECRET: '0123456789abcdef0123456789abcdef',
    VERBENA_ENGINE: engine,
  };
  return stage.start('ip', [...inside(host), 'sh', '-c', both], env, LIMIT_MS);
}

async function onTwoHosts(
  words: readonly string[],
  body: (heard: <T>(type: string) => T[], text: () => string) => void,
  engine = 'verbs',
): Promise<void> {
  const stage = new Stage();
  try {
    const hosts = [start(stage, 0, words, engine), start(stage, 1, words, engine)];
    for (const host of hosts) await host.ended;
    body(
      <T>(type: string) => hosts.flatMap((host) => host.heard<T>(type)),
      () => hosts.map(({ stdout, stderr }) => stdout + stderr).join('\n'),
    );
    await stage.assertNothingLeft();
  } finally {
    await stage.abandon();
    stage.remove();
  }
}

test('collectives run between two hosts over the network, and over shared memory inside', {
  skip,
  timeout: LIMIT_MS + 20_000,
}, async () => {
  await onTwoHosts(['hosts'], (heard, text) => {
    const done = heard<{ providers: string[]; chosen: Record<string, string> }>('done');
    assert.equal(done.length, 4, text());
    for (const { providers, chosen } of done) {
      assert.deepEqual(providers, ['roce', 'shm']);
      assert.match(chosen['allreduce'], /^hierarchical/);
    }
  });
});

test('a rank killed on one host is named on both, and the others go on', { skip, timeout: LIMIT_MS + 20_000 }, async () => {
  await onTwoHosts(['killed'], (heard, text) => assert.equal(heard('heard').length, 3, text()));
});

const withoutUcx = !existsSync('/usr/include/ucp/api/ucp.h') && 'needs apt-get install libucx-dev';

test('the same on UCX: its TCP between the hosts, its shared memory inside', {
  skip: skip || withoutUcx,
  timeout: 90_000,
}, async () => {
  await onTwoHosts(
    ['hosts'],
    (heard, text) => {
      const done = heard<{ providers: string[] }>('done');
      assert.equal(done.length, 4, text());
      for (const { providers } of done) assert.deepEqual(providers, ['ucx']);
    },
    'ucx',
  );
  await onTwoHosts(['killed'], (heard, text) => assert.equal(heard('heard').length, 3, text()), 'ucx');
});
