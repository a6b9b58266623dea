/** The algorithms of broadcast. Ties in selection go to the earlier in the list. */

import type { Algorithm } from '../algorithm.js';
import { binomialBroadcast } from './binomial.js';
import { chain } from './chain.js';
import { fanOutBroadcast } from './fan-out.js';
import { hierarchicalBroadcast } from './hierarchical.js';
import { linearBroadcast } from './linear.js';
import { multicastBroadcast } from './multicast.js';
import { scatterAllGather } from './scatter-all-gather.js';
import { sharedDirectBroadcast } from './shared-direct.js';

export const broadcastAlgorithms: readonly Algorithm[] = [
  binomialBroadcast,
  chain,
  scatterAllGather,
  sharedDirectBroadcast,
  hierarchicalBroadcast,
  fanOutBroadcast,
  linearBroadcast,
  multicastBroadcast,
];
