/** A value that one rank made and all have. The driver's serialised form lies in memory that the others READ. */

import { deserialize, serialize } from 'node:v8';
import type { Engine } from './engine.js';

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
      const value = await make();
      const bytes = serialize(value);
      const segment = engine.pool.take(bytes.length, true);
      segment.bytes.set(bytes);
      const head = Buffer.alloc(8 + segment.key.length);
      head.writeDoubleLE(bytes.length);
      head.set(segment.key, 8);
      await world.store.set(name, head);
      // However late a rank gets here, it finds both.
      engine.keepUntilClose(segment, name);
      return new Broadcast(value);
    }
    const head = Buffer.from(await world.store.wait(name));
    const into = new Uint8Array(head.readDoubleLE(0));
    const endpoint = await world.endpoint(0);
    await endpoint.ready();
    await endpoint.unpack(head.subarray(8)).get(0, into);
    return new Broadcast(deserialize(into) as T);
  }
}
