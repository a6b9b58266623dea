/** A rank for tests: does what its first argument says, and tells about it in JSON lines. */

import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { explainSelection, init, type World } from '../../../src/launch/index.js';

const [role, ...rest] = process.argv.slice(2);
const say = (type: string, more: object = {}) =>
  console.log(JSON.stringify({ type, rank: Number(process.env['VERBENA_RANK'] ?? process.env['RANK']), ...more }));
const forever = () => new Promise<void>(() => setInterval(() => {}, 1000));

/** Blocks this thread for good measure: no event loop, no promise, until `done` or the limit. */
function block(done: () => boolean, limitMs = 20_000): boolean {
  const cell = new Int32Array(new SharedArrayBuffer(4));
  const deadline = Date.now() + limitMs;
  while (!done() && Date.now() < deadline) Atomics.wait(cell, 0, 0, 2);
  return done();
}

function facts(world: World): object {
  const { rank, size, localRank, localSize, launcher, hosts, host, restart } = world;
  return {
    rank,
    size,
    localRank,
    localSize,
    launcher,
    hosts: hosts.length,
    host: host.index,
    ranks: host.ranks,
    restart,
    pid: process.pid,
  };
}

const roles: Record<string, () => Promise<void>> = {
  async hello() {
    await using world = await init();
    say('hello', facts(world));
    await world.barrier();
  },

  /** Ends without finalize(). */
  async casual() {
    const world = await init();
    await world.barrier();
    say('hello', facts(world));
  },

  async fail() {
    const world = await init();
    await world.barrier();
    if (world.rank === Number(rest[0])) {
      for (let line = 0; line < 30; line++) console.error(`line ${line}`);
      process.exit(Number(rest[1]));
    }
    await forever();
  },

  async stubborn() {
    process.on('SIGTERM', () => say('refusing'));
    process.on('SIGINT', () => say('refusing'));
    const world = await init();
    await world.barrier();
    say('ready');
    if (world.rank === 0 && rest[0] === 'fail') process.exit(9);
    await forever();
  },

  async signals() {
    for (const signal of ['SIGUSR2', 'SIGINT'] as const) {
      process.on(signal, () => {
        say('signal', { signal });
        if (signal === 'SIGINT') process.exit(0);
      });
    }
    await init();
    say('ready', { pid: process.pid });
    await forever();
  },

  async echo() {
    const world = await init();
    if (world.rank === 0) for await (const line of createInterface({ input: process.stdin })) say('read', { line });
    await world.finalize();
  },

  /** Watches the others with a blocked thread: the words of the board alone tell. */
  async watch() {
    const world = await init();
    await world.barrier();
    say('ready', { pid: process.pid });
    // Whoever is told to leaves in peace first: nobody may call that a loss.
    if (world.rank === Number(rest[0] ?? -1)) {
      await world.finalize();
      say('left');
      return;
    }
    const seen = block(() => world.liveness.lost.length > 0, Number(rest[1] ?? 20_000));
    say('saw', {
      seen,
      lost: world.liveness.lost,
      atMs: Date.now(),
      states: world.members.map(({ rank }) => world.liveness.stateOf(rank)),
    });
    await world.finalize();
  },

  /** The comfortable way: an event, a check, a barrier that fails. */
  async listen() {
    const world = await init();
    await world.barrier();
    say('ready', { pid: process.pid });
    const lost = await new Promise((resolve) => {
      world.liveness.onLost(resolve);
      setInterval(() => {}, 1000);
    });
    const errors: unknown[] = [];
    try {
      world.liveness.check();
    } catch (error) {
      errors.push((error as Error).message);
    }
    await world.barrier().catch((error) => errors.push((error as { code: string }).code));
    say('saw', { lost: [lost], errors, atMs: Date.now() });
    await world.finalize();
    process.exit(0);
  },

  /** Rank 0 blocks in code of its own; the others wait for it. */
  async stall() {
    const world = await init({ stallMs: 300 });
    world.liveness.onStall((report) => say('stall', { report }));
    if (world.rank === 0) {
      block(() => false, 1500);
    } else if (world.rank === 1) {
      const site = world.liveness.waits.site('receive');
      const slot = world.liveness.waits.enter(site, 0, 42);
      block(() => false, 1200);
      world.liveness.waits.leave(slot);
    }
    await world.barrier();
    say('through');
    await world.finalize();
  },

  async flaky() {
    const world = await init();
    await world.barrier();
    if (world.rank === 1 && world.restart < Number(rest[0])) process.exit(5);
    say('hello', facts(world));
    await world.finalize();
  },

  async early() {
    if (process.env['VERBENA_RANK'] === '1') throw new Error('thrown before init');
    await init();
  },

  async providers() {
    await using world = await init();
    const explained: string[] = [];
    for (let to = 0; to < world.size; to++) {
      const pair = { from: world.members[world.rank], to: world.members[to] };
      if (to !== world.rank) explained.push(explainSelection(pair, await world.providerTo(to)));
    }
    say('providers', {
      explained,
      ...facts(world),
      topology: world.members.map((_, rank) => world.topology.placement(rank).host),
    });
  },

  /** Every rank sends to the next one; the last rank calls nothing but a receive. */
  async ring() {
    await using world = await init();
    const [next, before] = [(world.rank + 1) % world.size, (world.rank + world.size - 1) % world.size];
    const into = new Uint8Array(4);
    const received = (await world.worker).recv(7, into);
    await (await world.endpoint(next)).send(7, new Uint8Array([world.rank, 1, 2, 3]));
    await received;
    say('ring', { rank: world.rank, from: into[0], right: into[0] === before });
    await world.barrier();
  },

  /** Rank 0 reaches rank 1, which has not touched its worker. */
  async reach() {
    await using world = await init();
    if (world.rank === 0) {
      const endpoint = await world.endpoint(1);
      await endpoint.ready();
      say('reached', { state: endpoint.state });
    }
    await world.barrier();
  },

  async connectivity() {
    await using world = await init();
    const addresses =
      rest[0] === undefined ? undefined : [{ interface: 'fake0', address: world.rank === 1 ? rest[0] : '127.0.0.1' }];
    say('paths', await world.testConnectivity({ insideHosts: true, timeoutMs: 3000, ...(addresses ? { addresses } : {}) }));
  },

  /** Starts a child that would outlive it. */
  async parent() {
    const world = await init();
    spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'inherit' });
    await world.barrier();
    say('ready');
    if (rest[0] === 'stay') await forever();
    process.exit(world.rank === 0 ? 4 : 0);
  },

  /** What others can see of the secret. */
  async secret() {
    await using world = await init();
    const visible = ['cmdline', 'environ'].map((file) => readFileSync(`/proc/self/${file}`, 'latin1')).join('\0');
    say('secret', {
      hexadecimal: /[0-9a-f]{40,}/.test(visible),
      variable: process.env['VERBENA_SECRET'] ?? null,
      rank: world.rank,
    });
  },

  async cpus() {
    await using world = await init();
    say('cpus', { list: /^Cpus_allowed_list:\s*(\S+)/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1], rank: world.rank });
  },

  async environment() {
    await using world = await init();
    say('environment', { a: process.env['A'], b: process.env['B'], arguments: rest, rank: world.rank });
  },

  async again() {
    const first = await init();
    const twice = await init().catch((error) => (error as Error).message);
    await first.finalize();
    say('again', { twice });
  },
};

await roles[role]();
