/** `verbena run`: what starts, what it prints, how it ends. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { ACTOR, jobTest, until } from './job.js';

jobTest('four ranks find each other and know where they are', async (stage) => {
  const job = stage.verbena(['run', '-n', '4', ACTOR, 'hello']);
  assert.deepEqual(await job.ended, { code: 0, signal: null }, job.stderr);
  const hello = job.heard<{ rank: number; pid: number }>('hello').sort((a, b) => a.rank - b.rank);
  assert.deepEqual(
    hello.map(({ pid: _, ...facts }) => facts),
    [0, 1, 2, 3].map((rank) => ({
      type: 'hello',
      rank,
      size: 4,
      localRank: rank,
      localSize: 4,
      launcher: 'verbena',
      hosts: 1,
      host: 0,
      ranks: [0, 1, 2, 3],
      restart: 0,
    })),
  );
  assert.match(job.stdout, /^\[2\] \{"type":"hello","rank":2/m);
});

jobTest('a TypeScript file runs as it is, with its own arguments', async (stage) => {
  const launch = new URL('../../src/launch/index.js', import.meta.url).href;
  const script = join(stage.directory, 'job.ts');
  writeFileSync(
    script,
    `import { init, type World } from '${launch}';
const world: World = await init();
console.log(\`rank \${world.rank} \${process.argv.slice(2).join(' ')}\`);
await world.finalize();
`,
  );
  const job = stage.verbena(['run', '-n', '2', 'job.ts', '--epochs', '3', '-n', '9']);
  assert.deepEqual(await job.ended, { code: 0, signal: null }, job.stderr);
  assert.deepEqual(job.stdout.trim().split('\n').sort(), ['[0] rank 0 --epochs 3 -n 9', '[1] rank 1 --epochs 3 -n 9']);
  rmSync(script);
});

jobTest('a script that ends without finalize() has still ended in peace', async (stage) => {
  const job = stage.verbena(['run', '-n', '3', ACTOR, 'casual']);
  assert.deepEqual(await job.ended, { code: 0, signal: null }, job.stderr);
  assert.equal(job.heard('hello').length, 3);
});

jobTest('stdin goes to rank 0', async (stage) => {
  const job = stage.verbena(['run', '-n', '2', ACTOR, 'echo']);
  job.process.stdin?.end('first\nsecond\n');
  assert.deepEqual(await job.ended, { code: 0, signal: null }, job.stderr);
  assert.deepEqual(
    job.heard('read').map(({ rank, line }) => [rank, line]),
    [
      [0, 'first'],
      [0, 'second'],
    ],
  );
});

jobTest('the first failing rank is named with its last lines, the others end, and the exit code is its own', async (stage) => {
  const started = performance.now();
  const job = stage.verbena(['run', '-n', '4', '--grace', '50', ACTOR, 'fail', '2', '7']);
  assert.deepEqual(await job.ended, { code: 7, signal: null });
  assert.match(job.stderr, /rank 2 \(pid \d+ on [^)]+\) exited with code 7; its last lines:/);
  assert.match(job.stderr, /\| line 29\n/);
  assert.doesNotMatch(job.stderr, /\| line 9\n/);
  assert.match(job.stderr, /ending the other 3 ranks/);
  assert.ok(performance.now() - started < 45_000, 'the others did not use up the grace time');
});

jobTest('ranks that ignore SIGTERM are killed after the grace time', async (stage) => {
  const job = stage.verbena(['run', '-n', '3', '--grace', '0.5', ACTOR, 'stubborn', 'fail']);
  assert.deepEqual(await job.ended, { code: 9, signal: null });
  assert.equal(job.heard('refusing').length, 2);
});

jobTest('signals go to all ranks, and Ctrl-C ends the job', async (stage) => {
  const job = stage.verbena(['run', '-n', '3', ACTOR, 'signals']);
  await job.hear('ready', 3);
  job.process.kill('SIGUSR2');
  await job.hear('signal', 3);
  job.process.kill('SIGINT');
  assert.deepEqual(await job.ended, { code: 130, signal: null });
  assert.equal(job.heard<{ signal: string }>('signal').filter(({ signal }) => signal === 'SIGINT').length, 3);
});

jobTest('Ctrl-C ends ranks that ignore it, in bounded time', async (stage) => {
  const job = stage.verbena(['run', '-n', '2', '--grace', '0.5', ACTOR, 'stubborn']);
  await job.hear('ready', 2);
  job.process.kill('SIGINT');
  assert.deepEqual(await job.ended, { code: 130, signal: null });
});

jobTest('a second Ctrl-C ends everything at once', async (stage) => {
  const job = stage.verbena(['run', '-n', '2', '--grace', '60', ACTOR, 'stubborn']);
  await job.hear('ready', 2);
  job.process.kill('SIGINT');
  await job.hear('refusing', 2);
  job.process.kill('SIGINT');
  assert.deepEqual(await job.ended, { code: 130, signal: null });
});

jobTest('--timeout ends a job that takes too long and says where each rank is', async (stage) => {
  const job = stage.verbena(['run', '-n', '2', '--timeout', '5', '--grace', '0.2', ACTOR, 'stubborn']);
  assert.deepEqual(await job.ended, { code: 124, signal: null });
  assert.match(job.stderr, /did not end within 5000 ms[\s\S]*ranks 0, 1: in no call of Verbena/);
});

jobTest('--restart starts the job again until it works', async (stage) => {
  const job = stage.verbena(['run', '-n', '2', '--restart', 'on-failure:3', ACTOR, 'flaky', '2']);
  assert.deepEqual(await job.ended, { code: 0, signal: null }, job.stderr);
  assert.ok(job.heard('hello').some(({ restart }) => restart === 2));
  assert.match(job.stderr, /restart 2 of 3/);
});

jobTest('--restart gives up after its number of times, with the code of the failing rank', async (stage) => {
  const job = stage.verbena(['run', '-n', '2', '--restart', 'on-failure:1', ACTOR, 'flaky', '9']);
  assert.deepEqual(await job.ended, { code: 5, signal: null });
  assert.match(job.stderr, /restart 1 of 1/);
});

jobTest('--output-dir writes one file a rank and nothing to stdout', async (stage) => {
  const job = stage.verbena(['run', '-n', '2', '--output-dir', 'logs', ACTOR, 'hello']);
  assert.deepEqual(await job.ended, { code: 0, signal: null }, job.stderr);
  assert.equal(job.stdout, '');
  assert.deepEqual(readdirSync(join(stage.directory, 'logs')), ['rank-0.log', 'rank-1.log']);
  assert.match(readFileSync(join(stage.directory, 'logs', 'rank-1.log'), 'utf8'), /^\{"type":"hello","rank":1.*\}\n$/);
  rmSync(join(stage.directory, 'logs'), { recursive: true });
});

jobTest('--json prints one document with the end of every rank', async (stage) => {
  const job = stage.verbena(['run', '-n', '2', '--json', ACTOR, 'fail', '1', '3']);
  assert.deepEqual(await job.ended, { code: 3, signal: null });
  const result = JSON.parse(job.stdout) as {
    exitCode: number;
    failure: { rank: number; reason: string };
    ranks: { code: number; joined: boolean }[];
  };
  assert.equal(result.exitCode, 3);
  assert.equal(result.failure.rank, 1);
  assert.match(result.failure.reason, /exited with code 3/);
  assert.deepEqual([result.ranks[1].code, result.ranks[1].joined], [3, true]);
});

jobTest('--virtual-hosts makes ranks behave as if on separate hosts', async (stage) => {
  const job = stage.verbena(['run', '--virtual-hosts', '2x2', ACTOR, 'providers']);
  assert.deepEqual(await job.ended, { code: 0, signal: null }, job.stderr);
  const said = job.heard<{
    rank: number;
    localRank: number;
    localSize: number;
    hosts: number;
    topology: number[];
    explained: string[];
  }>('providers');
  const last = said.find(({ rank }) => rank === 3);
  assert.ok(last);
  assert.deepEqual([last.localRank, last.localSize, last.hosts], [1, 2, 2]);
  assert.deepEqual(last.topology, [0, 0, 1, 1]);
  assert.match(last.explained[2], /rank 3 .* to rank 2 .*: shm\n {2}\* shm: lowest/);
  assert.match(last.explained[0], /shm: they do not share a host/);
});

jobTest('ranks of one virtual host talk by shared memory, those of two by the network', async (stage) => {
  const job = stage.verbena(['run', '--virtual-hosts', '2x2', ACTOR, 'mesh']);
  assert.deepEqual(await job.ended, { code: 0, signal: null }, job.stderr);
  const said = job.heard<{ rank: number; right: boolean; providers: Record<string, string> }>('mesh');
  assert.equal(said.length, 4);
  for (const { rank, right, providers } of said) {
    assert.ok(right, `rank ${rank} received what was sent`);
    for (const [to, provider] of Object.entries(providers)) {
      assert.equal(provider, Number(to) >> 1 === rank >> 1 ? 'shm' : 'roce', `rank ${rank} to rank ${to}`);
    }
  }
});

jobTest('--bind core gives each rank a core of its own', async (stage) => {
  const job = stage.verbena(['run', '-n', '2', '--bind', 'core', ACTOR, 'cpus']);
  assert.deepEqual(await job.ended, { code: 0, signal: null }, job.stderr);
  const lists = job.heard<{ list: string }>('cpus').map(({ list }) => list);
  assert.equal(lists.length, 2);
  if (availableParallelism() >= 2) assert.equal(new Set(lists).size, 2);
});

jobTest('--env sets variables of the ranks', async (stage) => {
  const job = stage.verbena(['run', '-n', '1', '--env', 'A=1', '--env', 'B=x=y,z', ACTOR, 'environment', '--flag']);
  assert.deepEqual(await job.ended, { code: 0, signal: null }, job.stderr);
  assert.deepEqual(job.said, [{ type: 'environment', rank: 0, a: '1', b: 'x=y,z', arguments: ['--flag'] }]);
});

jobTest('the secret of the job is in no command line and no environment', async (stage) => {
  const job = stage.verbena(['run', '-n', '2', ACTOR, 'secret']);
  assert.deepEqual(await job.ended, { code: 0, signal: null }, job.stderr);
  assert.deepEqual(
    job.heard('secret').map(({ hexadecimal, variable }) => [hexadecimal, variable]),
    [
      [false, null],
      [false, null],
    ],
  );
});

jobTest('what a rank started ends with it', async (stage) => {
  const job = stage.verbena(['run', '-n', '2', ACTOR, 'parent']);
  assert.deepEqual(await job.ended, { code: 4, signal: null });
});

jobTest('what a rank started ends with a killed launcher', async (stage) => {
  const job = stage.verbena(['run', '-n', '2', ACTOR, 'parent', 'stay']);
  await job.hear('ready', 2);
  job.process.kill('SIGKILL');
  await job.ended;
});

jobTest('stopped ranks end with a killed launcher too', async (stage) => {
  const job = stage.verbena(['run', '-n', '2', ACTOR, 'signals']);
  const ready = await job.hear<{ pid: number }>('ready', 2);
  for (const { pid } of ready) process.kill(pid, 'SIGSTOP');
  await until('both are stopped', () => ready.every(({ pid }) => readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') T ')));
  job.process.kill('SIGKILL');
  await job.ended;
});

jobTest('a script without a launcher is a world of one', async (stage) => {
  const job = stage.start(process.execPath, [ACTOR, 'hello']);
  assert.deepEqual(await job.ended, { code: 0, signal: null }, job.stderr);
  const [hello] = job.heard('hello');
  assert.deepEqual([hello['size'], hello['launcher'], hello['ranks']], [1, 'single', [0]]);
});

jobTest('init() twice in one process is an error', async (stage) => {
  const job = stage.start(process.execPath, [ACTOR, 'again']);
  assert.deepEqual(await job.ended, { code: 0, signal: null }, job.stderr);
  assert.match(String(job.heard('again')[0]['twice']), /called before/);
});

jobTest('the connectivity test finds that ranks talk, and names the pair and address that do not', async (stage) => {
  const good = stage.verbena(['run', '-n', '2', ACTOR, 'connectivity', '127.0.0.1']);
  assert.deepEqual(await good.ended, { code: 0, signal: null }, good.stderr);
  for (const { separated, paths } of good.heard<{ separated: unknown[]; paths: unknown[] }>('paths')) {
    assert.deepEqual([separated.length, paths.length], [0, 2]);
  }
  const bad = stage.verbena(['run', '-n', '2', ACTOR, 'connectivity', '192.0.2.7']);
  assert.deepEqual(await bad.ended, { code: 0, signal: null }, bad.stderr);
  for (const { separated } of bad.heard<{ separated: unknown[] }>('paths')) assert.deepEqual(separated, [{ from: 0, to: 1 }]);
});

jobTest('ranks send each other messages through the worker of the world', async (stage) => {
  const job = stage.verbena(['run', '-n', '3', ACTOR, 'ring']);
  assert.deepEqual(await job.ended, { code: 0, signal: null }, job.stderr);
  assert.deepEqual(
    job.heard('ring').map(({ right }) => right),
    [true, true, true],
  );
});

jobTest('a rank is reached although it never asked for its worker', async (stage) => {
  const job = stage.verbena(['run', '-n', '2', ACTOR, 'reach']);
  assert.deepEqual(await job.ended, { code: 0, signal: null }, job.stderr);
  assert.equal(job.heard('reached')[0]['state'], 'ready');
});
