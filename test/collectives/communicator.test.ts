import assert from 'node:assert/strict';
import { test } from 'node:test';
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

for (const call of ['allreduce', 'broadcast', 'barrier', 'sync']) {
  test(`a rank killed during ${call} is named to all others, who shrink and go on`, async () => {
    const results = await runRanks('loss', 4, { env: () => ({ VERBENA_TEST_CALL: call }) });
    allEnded(results, [1]);
    assert.equal(results[1].end, 'SIGKILL');
    const last = new Set(results.filter(({ rank }) => rank !== 1).map(({ said }) => said[0]['lastCompleted']));
    assert.equal(last.size, 1, 'they agree on the last call that all completed');
    assert.ok(([...last][0] as number) >= 5);
  });
}

test('a call that times out or is aborted ends at every rank', async () => {
  const results = await runRanks('giving-up', 3);
  allEnded(results);
  for (const { said } of results) assert.equal(said[0]['done'], true);
});
