/** A rank that is lost while the others make a smaller communicator: they make a still smaller one. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryExchange } from '../../conformance/collectives/stage.js';
import { Communicator } from '../../src/collectives/index.js';
import { Context } from '../../src/messaging/index.js';
import { SimFabric } from '../../src/verbs/providers/sim/fabric.js';

test('a rank that is lost between two steps of shrink is left out, also where only the new communicator has noticed', {
  timeout: 60_000,
}, async () => {
  const fabric = new SimFabric({ mtu: 4096 });
  const contexts = [0, 1, 2].map(() => new Context(fabric.open(), {}, true));
  const workers = await Promise.all(contexts.map((context) => context.createWorker()));
  /** What rank 2 uses: when it has just said that it is ready, rank 0 loses its way to it, and it does nothing any more. */
  class Leaving extends MemoryExchange {
    override async set(key: string, value: string | Uint8Array): Promise<void> {
      await exchange.set(key, value);
      if (!key.endsWith('shrink-1/members/ready/2')) return;
      await workers[0].connect(workers[2].address).close({ force: true });
      await new Promise(() => {});
    }
    override get = (key: string) => exchange.get(key);
    override wait = (key: string, options?: { timeoutMs?: number }) => exchange.wait(key, options);
  }
  const exchange = new MemoryExchange();
  const made = await Promise.all(
    workers.map((worker, rank) =>
      Communicator.create({ rank, size: 3, exchange: rank === 2 ? new Leaving() : exchange, key: 'k', worker }),
    ),
  );
  made[0].abort();
  void made[2].shrink();
  const smaller = await Promise.all(made.slice(0, 2).map((one) => one.shrink({ timeoutMs: 20_000 })));
  for (const one of smaller) assert.deepEqual(one.members, [0, 1]);
  await Promise.all(smaller.map((one) => one.barrier()));
  for (const one of smaller) one.close();
  for (const context of contexts) await context.close();
});
