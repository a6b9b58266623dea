/** Every algorithm of every collective, and how to find one by its name. */

import type { Collective } from '../schedule/schedule.js';
import type { Algorithm } from './algorithm.js';
import { allGatherAlgorithms } from './all-gather/registry.js';
import { allToAllAlgorithms } from './all-to-all/registry.js';
import { allreduceAlgorithms } from './allreduce/registry.js';
import { barrierAlgorithms } from './barrier/registry.js';
import { broadcastAlgorithms } from './broadcast/registry.js';
import { gatherAlgorithms } from './gather/registry.js';
import { reduceAlgorithms } from './reduce/registry.js';
import { reduceScatterAlgorithms } from './reduce-scatter/registry.js';
import { scanAlgorithms } from './scan/registry.js';
import { scatterAlgorithms } from './scatter/registry.js';
import { sendReceiveAlgorithms } from './send-receive/registry.js';
import { shardedAllreduceAlgorithms } from './sharded-allreduce/registry.js';

/** All algorithms by collective. */
export const ALGORITHMS: Readonly<Record<Collective, readonly Algorithm[]>> = {
  allreduce: allreduceAlgorithms,
  'sharded-allreduce': shardedAllreduceAlgorithms,
  'reduce-scatter': reduceScatterAlgorithms,
  'all-gather': allGatherAlgorithms,
  broadcast: broadcastAlgorithms,
  reduce: reduceAlgorithms,
  gather: gatherAlgorithms,
  scatter: scatterAlgorithms,
  'all-to-all': allToAllAlgorithms,
  barrier: barrierAlgorithms,
  scan: scanAlgorithms,
  'send-receive': sendReceiveAlgorithms,
};

/** @throws RangeError that lists what there is. */
export function findAlgorithm(collective: Collective, name: string): Algorithm {
  const found = ALGORITHMS[collective].find((algorithm) => algorithm.name === name);
  if (found !== undefined) return found;
  throw new RangeError(
    `there is no ${collective}:${name}; known: ${ALGORITHMS[collective].map((algorithm) => algorithm.name).join(', ')}`,
  );
}
