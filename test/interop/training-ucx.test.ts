/** Training over UCX: to the same bits as over the verbs, and on after a rank was killed. */

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Stage } from '../launch/job.js';
import { survive } from '../train/survival.js';
import { twoHosts } from './two-hosts.js';

const TRAINING = fileURLToPath(new URL('./ucx/training.js', import.meta.url));
const skip = !existsSync('/usr/include/ucp/api/ucp.h') && 'needs apt-get install libucx-dev';

interface Trained {
  readonly providers: string[];
  readonly samples: number;
  readonly parameters: string;
}

async function train(engine: string): Promise<Trained[]> {
  const stage = new Stage();
  try {
    const run = stage.verbena(['run', '-n', '2', '--engine', engine, TRAINING], { VERBENA_BLAS: 'own' }, 100_000);
    assert.equal((await run.ended).code, 0, run.stdout + run.stderr);
    await stage.assertNothingLeft();
    return run.heard<Trained>('trained');
  } finally {
    await stage.abandon();
    stage.remove();
  }
}

test('ranks train on UCX to the bits that they train to on the verbs', { skip, timeout: 240_000 }, async () => {
  const [onVerbs, onUcx] = [await train('verbs'), await train('ucx')];
  assert.equal(onUcx.length, 2);
  for (const { providers, samples, parameters } of onUcx) {
    assert.deepEqual(providers, ['ucx']);
    assert.equal(samples, 3 * 96);
    assert.equal(parameters, onVerbs[0].parameters);
  }
  assert.deepEqual(onVerbs[0].providers, ['shm']);
});

const SEED = Number(process.env['VERBENA_SEED'] ?? Date.now() % 1_000_000);
const hosts = twoHosts();

test(`a rank is killed, and a newcomer takes its place, on UCX inside a host and between two, seed ${SEED}`, {
  skip: skip || hosts.skip,
  timeout: 240_000,
}, async () => {
  const inside = (rank: number) => ['ip', ...hosts.inside(rank % 2)];
  for (const where of [{ over: 'ucx:TLS=sm,self' }, { over: 'ucx:TLS=tcp;NET_DEVICES=veth0', inside }]) {
    const { joined } = await survive(SEED, 3, { kills: 1, replace: true, ...where });
    assert.equal(joined, 1);
  }
});
