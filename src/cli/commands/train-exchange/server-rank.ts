/** One process of `verbena bench ps`: a server, or a worker that pushes and pulls. */

import { FileStore } from '../../../launch/store/file-store.js';
import type { ServerSettings } from '../../../train/index.js';
import { ParameterServerGroup, shareOver } from '../../../train/parameter-server/group.js';
import { openDevice } from '../../../verbs/open-device.js';
import { serve } from '../bench/child-program.js';

const RATE = 0.5;

export interface RankOpen {
  readonly directory: string;
  readonly rank: number;
  readonly size: number;
  readonly servers: readonly number[];
  readonly workers: readonly number[];
  readonly floats: number;
  readonly settings: ServerSettings;
}

/** What a worker measured in a round. */
export interface RoundTimes {
  /** Push and pull, us each. */
  readonly roundTripUs: readonly number[];
  /** From the push to the last grant, us each. */
  readonly pushUs: readonly number[];
}

let group: ParameterServerGroup;
let gradients: Float32Array;
let parameters: Float32Array;
let steps = 0;

serve({
  async open({ directory, rank, size, servers, workers, floats, settings }: RankOpen): Promise<void> {
    const device = await openDevice('shm');
    const memory = () => new Float32Array(device.alloc(4 * floats), 0, floats);
    gradients = memory();
    parameters = memory();
    for (let i = 0; i < floats; i++) gradients[i] = i % 7;
    const store = new FileStore({ directory, size });
    const ranges = [{ name: 'all', shape: [floats], from: 0, to: floats, decay: false }];
    const share = shareOver(store, rank, size);
    const places = { rank, size, share, servers, workers };
    group = await ParameterServerGroup.join({ ...settings, ...places, device, parameters, gradients, ranges });
    store.close();
  },

  /** All workers run the same number of steps: a synchronous server waits for them. */
  async steps(count: number): Promise<RoundTimes> {
    const { client } = group;
    if (client === undefined) throw new Error('this rank only serves');
    const [roundTripUs, pushUs]: [number[], number[]] = [[], []];
    for (let i = 0; i < count; i++) {
      const before = client.counters();
      const begin = performance.now();
      await client.pushPull(1, RATE);
      roundTripUs.push(1e3 * (performance.now() - begin));
      pushUs.push(1e3 * (client.counters().waitMs - before.waitMs));
      steps++;
    }
    return { roundTripUs, pushUs };
  },

  /** Whether the parameters are what so many times the own pushes make them. */
  async right(times: number): Promise<boolean> {
    await group.client?.pull();
    const updates = times * steps;
    return updates * 3 >= 1 << 23 || parameters.every((value, i) => value === -RATE * updates * (i % 7));
  },

  /** Of this rank's server: how the gradients reached it. */
  async serverBytes(): Promise<{ mapped: number; read: number }> {
    const counters = await group.serverCounters();
    return { mapped: counters?.mappedBytes ?? 0, read: counters?.readBytes ?? 0 };
  },

  workerBytes(): number {
    return group.client?.counters().pulledBytes ?? 0;
  },
});
