/** The algorithms of all-gather. Ties in selection go to the earlier in the list. */

import type { Algorithm } from '../algorithm.js';
import { bruckAllGather } from './bruck.js';
import { hierarchicalAllGather } from './hierarchical.js';
import { neighbourExchange } from './neighbour-exchange.js';
import { recursiveDoublingAllGather } from './recursive-doubling.js';
import { ringAllGather } from './ring.js';
import { sharedDirectAllGather } from './shared-direct.js';

export const allGatherAlgorithms: readonly Algorithm[] = [
  recursiveDoublingAllGather,
  bruckAllGather,
  ringAllGather,
  sharedDirectAllGather,
  neighbourExchange,
  hierarchicalAllGather,
];
