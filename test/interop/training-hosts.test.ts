/**
 * Training between two hosts, each a network namespace and a process namespace of its own, joined by a virtual cable: a rank is killed, and a newcomer on its host takes its place.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';
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
