/** Each mistake is one paragraph that says what to do, and ends the job. */

import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { ACTOR, jobTest, type Running, type Stage, VERBENA } from './job.js';

const SECRET = '0123456789abcdef0123456789abcdef';

async function fails(job: Running, code: number, words: RegExp): Promise<void> {
  assert.deepEqual(await job.ended, { code, signal: null }, job.stdout + job.stderr);
  assert.match(job.stderr, words);
}

/** Ends ranks that would wait until their time is up. */
async function end(ranks: readonly Running[]): Promise<void> {
  for (const rank of ranks) rank.process.kill();
  await Promise.all(ranks.map(({ ended }) => ended));
}

/** Ranks by torchrun's names, each a process of its own. */
function torchrun(stage: Stage, rank: number, size: number, env: Record<string, string> = {}, role = 'hello'): Running {
  return stage.verbena(['exec', ACTOR, role], {
    RANK: String(rank),
    WORLD_SIZE: String(size),
    LOCAL_WORLD_SIZE: String(size),
    TORCHELASTIC_RUN_ID: stage.mark,
    ...env,
  });
}

jobTest('an unknown script', async (stage) => {
  await fails(stage.verbena(['run', '-n', '2', 'nowhere.ts']), 1, /no script nowhere\.ts.*current directory/);
  await fails(stage.verbena(['exec', '.']), 1, /not a file/);
});

jobTest('a script that throws before init()', async (stage) => {
  const job = stage.verbena(['run', '-n', '3', ACTOR, 'early']);
  await fails(
    job,
    1,
    /rank 1 \(pid \d+ on [^)]+\) exited with code 1 before it called init\(\); its last lines:[\s\S]*thrown before init/,
  );
});

jobTest('more ranks than the limit of open files allows', async (stage) => {
  const command = [process.execPath, VERBENA, 'run', '-n', '20', ACTOR, 'hello'];
  const job = stage.start('sh', ['-c', 'ulimit -n 80 && exec "$@"', 'sh', ...command]);
  await fails(job, 1, /^verbena: rank \d+ cannot be started \(spawn \S+ EMFILE\): .*raise ulimit -n\n$/);
});

jobTest('a port in use', async (stage) => {
  const holder = createServer();
  const port = await new Promise<number>((resolve) =>
    holder.listen(0, '127.0.0.1', () => resolve((holder.address() as { port: number }).port)),
  );
  await fails(stage.verbena(['run', '-n', '1', '--port', String(port), ACTOR, 'hello']), 1, /is in use.*choose another port/);
  const rank = torchrun(stage, 0, 1, { MASTER_ADDR: '127.0.0.1', MASTER_PORT: String(port), VERBENA_SECRET: SECRET });
  await fails(rank, 1, /is in use.*MASTER_PORT/);
  holder.close();
});

jobTest('a rank that never arrives', async (stage) => {
  const env = { VERBENA_INIT_TIMEOUT_MS: '1500' };
  const ranks = [0, 2].map((rank) => torchrun(stage, rank, 3, env));
  for (const rank of ranks) await fails(rank, 1, /2 of 3 ranks called init\(\).*rank 1 never arrived/);
});

jobTest('rank 0 that never arrives', async (stage) => {
  await fails(torchrun(stage, 1, 2, { VERBENA_INIT_TIMEOUT_MS: '500' }), 1, /rank 0 of this job .* never arrived/);
});

jobTest('a duplicated rank', async (stage) => {
  const env = { VERBENA_INIT_TIMEOUT_MS: '30000' };
  const ranks = [0, 1, 1].map((rank) => torchrun(stage, rank, 3, env));
  const refused = await Promise.any(ranks.slice(1).map(async (rank) => rank.ended.then(() => rank)));
  await fails(refused, 1, /rank 1 is taken by rank 1 \(pid \d+ on .*give every process its own rank/);
  await end(ranks);
});

jobTest('a duplicated rank 0', async (stage) => {
  const first = torchrun(stage, 0, 2, { VERBENA_INIT_TIMEOUT_MS: '20000' });
  const second = torchrun(stage, 0, 2, { VERBENA_INIT_TIMEOUT_MS: '20000' });
  const refused = await Promise.race([first, second].map(async (rank) => rank.ended.then(() => rank)));
  await fails(refused, 1, /another process of this user is rank 0 of the same job/);
  const other = torchrun(stage, 1, 2);
  await Promise.all([first, second, other].map(({ ended }) => ended));
});

jobTest('a child of a rank that calls init() itself', async (stage) => {
  const job = stage.verbena(['run', '-n', '2', ACTOR, 'impostor']);
  assert.deepEqual(await job.ended, { code: 0, signal: null }, job.stderr);
  const said = job.heard<{ code: number; errors: string }>('impostor');
  assert.equal(said.length, 2);
  for (const { code, errors } of said) {
    assert.equal(code, 1);
    assert.match(errors, /started by rank \d of a job of verbena run and is no rank itself/);
  }
});

jobTest('a world size mismatch', async (stage) => {
  const env = { VERBENA_INIT_TIMEOUT_MS: '30000' };
  const [zero, one] = [torchrun(stage, 0, 2, env), torchrun(stage, 1, 3, env)];
  await fails(one, 1, /told that the world has 3 ranks, and the coordinator was told 2/);
  await end([zero]);
});

jobTest('a wrong secret is refused and logged by rank 0', async (stage) => {
  const holder = createServer();
  const port = await new Promise<number>((resolve) =>
    holder.listen(0, '127.0.0.1', () => resolve((holder.address() as { port: number }).port)),
  );
  await new Promise((resolve) => holder.close(resolve));
  const env = { MASTER_ADDR: '127.0.0.1', MASTER_PORT: String(port), VERBENA_INIT_TIMEOUT_MS: '6000' };
  const zero = torchrun(stage, 0, 2, { ...env, VERBENA_SECRET: SECRET });
  await fails(torchrun(stage, 1, 2, { ...env, VERBENA_SECRET: `${SECRET}x` }), 1, /secret is wrong/);
  const one = torchrun(stage, 1, 2, { ...env, VERBENA_SECRET: SECRET });
  assert.deepEqual(await zero.ended, { code: 0, signal: null }, zero.stderr);
  assert.deepEqual(await one.ended, { code: 0, signal: null }, one.stderr);
  assert.match(zero.stderr, /refused 127\.0\.0\.1:\d+: wrong secret/);
});

jobTest('options that make no sense', async (stage) => {
  await fails(stage.verbena(['run', '-n', '0', ACTOR]), 2, /--ranks/);
  await fails(stage.verbena(['run', '-n', '3', '--virtual-hosts', '2x2', ACTOR]), 2, /contradict/);
  await fails(stage.verbena(['run', '--restart', 'always', ACTOR]), 2, /on-failure:K/);
  await fails(stage.verbena(['run', '--env', 'VERBENA_RANK=1', ACTOR]), 2, /sets it itself/);
  await fails(stage.verbena(['run']), 2, /script is missing/);
});

jobTest('variables of a launcher that contradict each other', async (stage) => {
  await fails(stage.verbena(['exec', ACTOR, 'hello'], { RANK: '5', WORLD_SIZE: '2' }), 1, /RANK=5 does not fit a world of 2/);
  await fails(stage.verbena(['exec', ACTOR, 'hello'], { VERBENA_RANK: '0' }), 1, /VERBENA_SIZE is not/);
  await fails(
    stage.verbena(['exec', ACTOR, 'hello'], { RANK: '0', WORLD_SIZE: '2', MASTER_ADDR: '10.0.0.1', MASTER_PORT: '1' }),
    1,
    /need a secret.*VERBENA_SECRET/,
  );
});
