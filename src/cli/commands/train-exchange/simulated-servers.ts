/**
 * Parameter servers on simulated links: the servers and workers that ship, in one process, every one with a port of its own on a switch. Time is the simulation's, so what is
 * measured is what the links allow, whatever else this machine does.
 */

import { setImmediate as turn } from 'node:timers/promises';
import { Context } from '../../../messaging/context.js';
import { parameterServer } from '../../../plan/cost/parameter-server.js';
import { ParameterClient } from '../../../train/parameter-server/client.js';
import { type GroupPlan, ParameterServer } from '../../../train/parameter-server/server.js';
import { cutShards } from '../../../train/parameter-server/shard-cut.js';
import type { SimDevice } from '../../../verbs/providers/sim/device.js';
import { SimFabric } from '../../../verbs/providers/sim/fabric.js';

export interface LinkCost {
  readonly workers: number;
  readonly servers: number;
  /** One direction by the formula: max(n/b, p n/(k b)). */
  readonly predictedUs: number;
  readonly pushUs: number;
  readonly pullUs: number;
}

/** One synchronous push and pull of all workers at once. Throws when the parameters are not what the pushes make them. */
export async function measureOnLinks(workers: number, servers: number, bytes: number, bitsPerSecond: number): Promise<LinkCost> {
  const fabric = new SimFabric({ clock: 'virtual', link: { bitsPerSecond, latencyNs: 1000 } });
  const floats = bytes >> 2;
  const ranges = [{ name: 'all', shape: [floats], from: 0, to: floats, decay: false }];
  const cuts = cutShards(floats, servers, ranges);
  const plan: GroupPlan = {
    mode: 'sync',
    staleness: 0,
    backups: 0,
    workers,
    optimizer: { kind: 'sgd' },
    floats,
    ranges,
    cuts,
    replicate: false,
    device: 'sim',
  };
  let isOver = false;
  const time = (async () => {
    while (!isOver) {
      await turn(); // programs react before the next packet arrives
      fabric.step();
    }
  })();
  const failed = (error: Error) => {
    throw error;
  };
  const opened = await Promise.all(
    cuts.map((_, i) => ParameterServer.open(i, plan, failed, new Context(port(fabric), {}, true))),
  );
  const addresses = opened.map(({ address }) => address);
  const parameters: Float32Array[] = [];
  const clients = await Promise.all(
    Array.from({ length: workers }, (_, worker) => {
      const device = port(fabric);
      const memory = () => new Float32Array(device.alloc(bytes), 0, floats);
      parameters[worker] = memory();
      const gradients = memory().fill(worker + 1);
      return ParameterClient.connect({ plan, worker, servers: addresses, device, parameters: parameters[worker], gradients });
    }),
  );
  const began = fabric.nowNs;
  await Promise.all(clients.map((client) => client.pushPull(1, 2)));
  const stepped = fabric.nowNs;
  await Promise.all(clients.map((client) => client.pull()));
  const pullNs = fabric.nowNs - stepped;
  for (const client of clients) await client.close();
  for (const server of opened) await server.close();
  isOver = true;
  await time;
  // The mean of 1 .. p, times the rate of 2.
  if (!parameters.every((one) => one.every((value) => value === -(workers + 1)))) {
    throw new Error('the parameters are not what the pushes make them');
  }
  const { pushSeconds } = parameterServer({ workers, servers, bytes, bytesPerSecond: bitsPerSecond / 8 });
  return { workers, servers, predictedUs: 1e6 * pushSeconds, pushUs: (stepped - began - pullNs) / 1e3, pullUs: pullNs / 1e3 };
}

/** A device as a network card is: what lies in a peer's memory has to travel. */
function port(fabric: SimFabric): SimDevice {
  const device = fabric.open();
  return Object.defineProperty(device, 'capabilities', { value: { ...device.capabilities, directAccess: false } });
}
