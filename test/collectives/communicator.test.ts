import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noticeLimitMs } from '../load.js';
import { type RankResult, runRanks } from './ranks.js';

function allEnded(results: readonly RankResult[], except: readonly number[] = []): void {
  for (const { rank, end, stderr } of results) {
    if (!except.includes(rank)) assert.equal(end, 0, `rank ${rank}: ${stderr}`);
  }
}

test('types, reductions, v-forms, groups and mismatches behave alike for every number of ranks; shards give the same bits', async () => {
  const bits = new Set<string>();
  for (const size of [1, 2, 3, 4]) {
    const results = await runRanks('operations', size);
    allEnded(results);
    for (const { said } of results) {
      assert.equal(said.at(-1)?.['done'], true);
      bits.add(JSON.stringify(said[0]['shards']));
    }
  }
  assert.equal(bits.size, 1, [...bits].join(' '));
});

function survivorsAgree(results: readonly RankResult[], dead: readonly number[]): void {
  allEnded(results, dead);
  for (const rank of dead) assert.equal(results[rank].end, 'SIGKILL', results[rank].stderr);
  const living = results.filter(({ rank }) => !dead.includes(rank));
  const last = new Set(living.map(({ said }) => said[0]['lastCompleted']));
  assert.equal(last.size, 1, 'they agree on the last call that all completed');
  assert.ok(([...last][0] as number) >= 5);
  const limitMs = noticeLimitMs();
  for (const { said } of living)
    assert.ok((said[0]['noticedMs'] as number) < limitMs, `noticed after ${said[0]['noticedMs']} ms`);
}

for (const [device, calls] of [
  [undefined, ['allreduce', 'broadcast', 'barrier', 'sync']],
  ['shm', ['allreduce', 'sync']],
] as const) {
  const way = device === undefined ? 'on shared memory' : `over messages on ${device}`;
  const env = device === undefined ? {} : { VERBENA_TEST_DEVICE: device };
  for (const call of calls) {
    test(`a rank killed during ${call} ${way} is named to all others within a second, who shrink and go on`, async () => {
      survivorsAgree(await runRanks('loss', 4, { env: () => ({ ...env, VERBENA_TEST_CALL: call }) }), [1]);
    });
  }
  for (const second of device === undefined ? ['before', 'during'] : ['during']) {
    test(`a second rank killed ${second} shrink ${way} is left out too`, async () => {
      const more = { ...env, VERBENA_TEST_CALL: 'allreduce', VERBENA_TEST_SECOND: second };
      survivorsAgree(await runRanks('loss', 4, { env: () => more }), [1, 2]);
    });
  }
}

test('a call that times out or is aborted ends at every rank', async () => {
  const results = await runRanks('giving-up', 3);
  allEnded(results);
  for (const { said } of results) assert.equal(said[0]['done'], true);
});

for (const [way, env] of [
  ['on shared memory', {}],
  ['over messages', { VERBENA_TEST_DEVICE: 'shm' }],
] as const) {
  test(`a rank that gives up making a communicator ${way} is named to the others, and all have one or none`, async (context) => {
    const results = await runRanks('creation-given-up', 3, { env: () => env });
    allEnded(results);
    const [first, ...others] = results.map(({ said }) => said);
    for (const said of others) assert.deepEqual(said, first);
    const standing = first.filter(({ stands }) => stands).length;
    context.diagnostic(`${standing} of ${first.length} came about`);
    assert.ok(standing >= 2); // those in which nobody gave up
  });
}
