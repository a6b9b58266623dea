/** A simulated fabric that loses, doubles, delays and damages packets; VERBENA_SEED plays a run again. */

import { SimFabric } from '../../src/verbs/providers/sim/fabric.js';

export function lossyFabric(mtu: number): { fabric: SimFabric; seed: number } {
  const seed = Number(process.env['VERBENA_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
  const fabric = new SimFabric({
    mtu,
    faults: {
      seed,
      rules: [
        { kind: 'drop', perMillion: 3000 },
        { kind: 'duplicate', perMillion: 3000 },
        { kind: 'delay', perMillion: 3000, delayNs: 20_000 },
        { kind: 'corrupt', perMillion: 1000 },
      ],
    },
  });
  return { fabric, seed };
}
