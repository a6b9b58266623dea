/** A value that one rank made and all have. The driver's serialised form lies in memory that the others READ. */

import { deserialize, serialize } from 'node:v8';
import type { Engine } from './engine.js';
import { DatasetError } from './errors.js';

/** In place of a length: making the value failed, and the reason follows. */
const FAILED = -1;
/** The driver may take its time; when it dies, waiting ends. */
const LONG_MS = 86_400_000;

function headOf(length: number): Buffer {
  const head = Buffer.alloc(8);
  head.writeDoubleLE(length);
  return head;
}

export class Broadcast<T> {
  readonly value: T;

  private constructor(value: T) {
    this.value = value;
  }

  /** @internal */
  static async make<T>(engine: Engine, make: () => T | Promise<T>): Promise<Broadcast<T>> {
    const number = engine.nextBroadcast();
    const name = `verbena/dataset/broadcast/${number}`;
    const { world } = engine;
    if (world.size === 1) return new Broadcast(await make());
    if (engine.isDriver) {
      let value: T;
      try {
        value = await make();
      } catch (error) {
        const reason = Buffer.from(`broadcast: ${(error as Error).message}`);
        await world.store.set(name, Buffer.concat([headOf(FAILED), reason]));
        throw error;
      }
      const bytes = serialize(value);
      const segment = engine.pool.take(bytes.length, true);
      segment.bytes.set(bytes);
      await world.store.set(name, Buffer.concat([headOf(bytes.length), segment.key]));
      // However late a rank gets here, it finds both.
      engine.keepUntilClose(segment, name);
      return new Broadcast(value);
    }
    const head = Buffer.from(await engine.orLost(world.store.wait(name, { timeoutMs: LONG_MS })));
    if (head.readDoubleLE(0) === FAILED) throw new DatasetError('DATASET_USER', head.toString('utf8', 8));
    const into = new Uint8Array(head.readDoubleLE(0));
    const endpoint = await world.endpoint(0);
    await endpoint.ready();
    await endpoint.unpack(head.subarray(8)).get(0, into);
    return new Broadcast(deserialize(into) as T);
  }
}
