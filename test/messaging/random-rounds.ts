/**
 * Random rounds of messaging: three workers with random options send each other tagged messages, active messages, bytes of a stream, puts and atomics, all at
 * once, and everything that arrives is compared with what was sent. A seed gives the same round again, as far as the timing of promises allows.
 */

import assert from 'node:assert/strict';
import { assertBytes, connectPair, pattern } from '../../conformance/messaging/stage.js';
import {
  Context,
  type Endpoint,
  openContext,
  type ProtocolName,
  type Worker,
  type WorkerOptions,
} from '../../src/messaging/index.js';
import { SimFabric } from '../../src/verbs/providers/sim/fabric.js';

/** Numbers below a bound, from a seed. */
class Chance {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  below(bound: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) % bound;
  }

  of<T>(list: readonly T[]): T {
    return list[this.below(list.length)];
  }

  /** The list in another order. */
  shuffled<T>(list: readonly T[]): T[] {
    const result = [...list];
    for (let i = result.length - 1; i > 0; i--) {
      const j = this.below(i + 1);
      [result[i], result[j]] = [result[j], result[i]];
    }
    return result;
  }
}

type Engine = 'shm' | 'roce' | 'shm and roce' | 'sim with faults' | `ucx:${string}`;
const ENGINES: readonly Engine[] = ['shm', 'shm', 'shm', 'roce', 'shm and roce', 'sim with faults'];
/** UCX has rounds of its own: it is not everywhere. */
export const UCX_ENGINES: readonly Engine[] = ['ucx:TLS=sm,self', 'ucx:TLS=tcp;NET_DEVICES=lo'];
const WORKERS = 3;
const TAGS = [1, 2, 2 ** 40 + 1];
const SIZES = [0, 1, 8, 40, 41, 200, 1000, 4000, 9000, 70_000, 300_000, 1_100_000];

function openers(engine: Engine, chance: Chance): () => Promise<Context> {
  if (engine === 'sim with faults') {
    const rules = [
      { kind: 'drop', perMillion: 2000 },
      { kind: 'duplicate', perMillion: 2000 },
      { kind: 'delay', perMillion: 2000, delayNs: 20_000 },
    ] as const;
    const fabric = new SimFabric({ mtu: 4096, faults: { seed: chance.below(2 ** 31), rules } });
    return async () => new Context(fabric.open(), {}, true);
  }
  if (engine !== 'shm and roce') return () => openContext({ device: engine, name: 'random rounds' });
  const hosts = ['a', 'b'];
  return () => openContext({ device: ['shm', 'roce'], host: chance.of(hosts), name: 'random rounds' });
}

function optionsOf(engine: Engine, chance: Chance): WorkerOptions {
  const protocols: (ProtocolName | undefined)[] = [undefined, undefined, 'eager-bcopy', 'rndv-get', 'rndv-put', 'rndv-am'];
  const protocol = chance.of(protocols);
  const isImmediate = engine === 'sim with faults' || chance.below(3) === 0;
  return {
    timeoutMs: 60_000,
    mode: chance.of(['adaptive', 'adaptive', 'event', 'poll']),
    ringSlots: chance.of([8, 32, 256]),
    ringBytes: chance.of([8192, 65_536, 262_144]),
    unexpectedBytes: chance.of([0, 4096, 8 << 20]),
    unexpectedMessages: chance.of([1, 8, 4096]),
    lanes: chance.of([1, 1, 2, 3]),
    fragmentBytes: chance.of([4096, 65_536, 524_288]),
    ...(protocol === undefined ? {} : { protocol }),
    ...(isImmediate ? { ring: 'immediate' as const } : {}),
  };
}

/** What one message carries: bytes that tell who sent it, under which tag, and as which. */
const seedOf = (from: number, to: number, tag: number, n: number) => from * 1000 + to * 100 + (tag % 7) * 10 + n;

async function exchangeTags(workers: readonly Worker[], ways: Endpoint[][], chance: Chance): Promise<void> {
  const jobs: Promise<void>[] = [];
  // Whatever fails is heard at the end, where all are awaited.
  const begin = (job: Promise<void>) => {
    job.catch(() => {});
    jobs.push(job);
  };
  const turns: (() => void)[] = [];
  for (let from = 0; from < WORKERS; from++) {
    for (let to = 0; to < WORKERS; to++) {
      if (from === to) continue;
      for (const tag of TAGS) {
        const sizes = Array.from({ length: 1 + chance.below(6) }, () => chance.of(SIZES));
        const memory = sizes.map((size) => {
          const bytes = size > 0 && chance.below(2) === 0 ? workers[from].context.alloc(size) : new Uint8Array(size);
          return bytes;
        });
        let sent = 0;
        let posted = 0;
        for (const [n, size] of sizes.entries()) {
          memory[n].set(pattern(size, seedOf(from, to, tag, n)));
          // The order within one way and tag is fixed; everything else is mixed.
          turns.push(() => {
            const mine = sent++;
            begin(ways[from][to].send(tag, memory[mine]));
          });
          turns.push(() => {
            const mine = posted++;
            const into = new Uint8Array(sizes[mine] + (mine % 3));
            const received = workers[to].recv(tag, into, { from: ways[to][from] });
            begin(
              received.then(({ length }) => {
                assert.equal(length, sizes[mine], `message ${mine} of ${from} to ${to}, tag ${tag}`);
                assertBytes(into.subarray(0, length), pattern(length, seedOf(from, to, tag, mine)));
              }),
            );
          });
        }
      }
    }
  }
  for (const turn of chance.shuffled(turns)) {
    turn();
    if (chance.below(8) === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  await Promise.all(jobs);
}

async function exchangeActiveMessages(workers: readonly Worker[], ways: Endpoint[][], chance: Chance): Promise<void> {
  const plans = Array.from({ length: 8 }, (_, n) => {
    const from = chance.below(WORKERS);
    return { n, from, to: (from + 1 + chance.below(WORKERS - 1)) % WORKERS, size: chance.of(SIZES) };
  });
  const open = new Map(plans.map((plan) => [plan.n, plan]));
  const arrived = new Promise<void>((resolve, reject) => {
    for (const worker of workers) {
      worker.handle(9, async (message) => {
        try {
          const n = message.header[0];
          const into = new Uint8Array(message.length);
          await message.receive(into);
          const plan = open.get(n);
          assert.equal(plan?.size, into.length);
          assertBytes(into, pattern(into.length, n));
          open.delete(n);
          if (open.size === 0) resolve();
        } catch (error) {
          reject(error);
        }
      });
    }
  });
  await Promise.all(plans.map(({ n, from, to, size }) => ways[from][to].am(9, new Uint8Array([n]), pattern(size, n))));
  await arrived;
  for (const worker of workers) worker.handle(9, undefined);
}

async function exchangeStream(ways: Endpoint[][], chance: Chance): Promise<void> {
  const data = pattern(1 + chance.below(500_000), 77);
  const write = async () => {
    for (let at = 0; at < data.length; ) {
      const count = Math.min(data.length - at, 1 + chance.below(100_000));
      await ways[0][1].stream.write(data.subarray(at, at + count));
      at += count;
    }
  };
  const read = async () => {
    const got = new Uint8Array(data.length);
    for (let at = 0; at < got.length; ) at += await ways[1][0].stream.read(got.subarray(at));
    assertBytes(got, data, 'the stream');
  };
  await Promise.all([write(), read()]);
}

async function exchangeMemory(workers: readonly Worker[], ways: Endpoint[][], chance: Chance): Promise<void> {
  const owner = chance.below(WORKERS);
  const exposed = workers[owner].expose(workers[owner].context.alloc(65_536));
  // The owner stays awake: it runs the atomics that a device cannot.
  const abort = new AbortController();
  const awake = workers[owner].recv(2 ** 50, new Uint8Array(1), { signal: abort.signal }).catch(() => undefined);
  await Promise.all(
    workers.map(async (_, rank) => {
      if (rank === owner) return;
      const remote = ways[rank][owner].unpack(exposed.pack());
      const at = 1024 + rank * 16_384;
      const data = pattern(1 + chance.below(16_000), rank);
      await remote.put(at, data);
      await ways[rank][owner].flush();
      const back = new Uint8Array(data.length);
      await remote.get(at, back);
      assertBytes(back, data, 'what was put');
      for (let i = 0; i < 5; i++) await remote.fetchAdd(8, BigInt(rank + 1));
    }),
  );
  abort.abort();
  await awake;
  const expected = [1, 2, 3].filter((_, rank) => rank !== owner).reduce((sum, add) => sum + 5 * add, 0);
  assert.equal(new BigUint64Array(exposed.bytes.buffer, exposed.bytes.byteOffset, 2)[1], BigInt(expected));
  exposed.close();
}

async function round(seed: number, engines: readonly Engine[]): Promise<void> {
  const chance = new Chance(seed);
  const engine = chance.of(engines);
  const open = openers(engine, chance);
  const contexts: Context[] = [];
  const told: string[] = [];
  try {
    const workers: Worker[] = [];
    for (let i = 0; i < WORKERS; i++) {
      const context = await open();
      contexts.push(context);
      const options = optionsOf(engine, chance);
      told.push(JSON.stringify(options));
      workers.push(await context.createWorker(options));
    }
    const ways: Endpoint[][] = workers.map(() => []);
    for (const [a, b] of [
      [0, 1],
      [0, 2],
      [1, 2],
    ]) {
      const { out, back } = await connectPair(workers[a], workers[b]);
      ways[a][b] = out;
      ways[b][a] = back;
    }
    await Promise.all([
      exchangeTags(workers, ways, chance),
      exchangeActiveMessages(workers, ways, chance),
      exchangeStream(ways, chance),
      exchangeMemory(workers, ways, chance),
    ]);
    for (const worker of workers) assert.equal(worker.requests.live, 0, 'nothing is left');
    await Promise.all(workers.map((worker) => worker.close()));
  } catch (error) {
    throw new Error(`round with VERBENA_SEED=${seed} on ${engine} failed: ${(error as Error).message}\n${told.join('\n')}`, {
      cause: error,
    });
  } finally {
    for (const context of contexts) await context.close();
  }
}

/** Plays rounds until their number or the time is reached; returns how many. Throws with the seed of the round that failed. */
export async function randomRounds(
  seed: number,
  limits: { readonly rounds: number; readonly budgetMs: number },
  engines: readonly Engine[] = ENGINES,
): Promise<number> {
  const end = performance.now() + limits.budgetMs;
  let played = 0;
  while (played < limits.rounds && (played === 0 || performance.now() < end)) await round(seed + played++, engines);
  return played;
}
