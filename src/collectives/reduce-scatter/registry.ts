/** The algorithms of reduce-scatter. Ties in selection go to the earlier in the list. */

import type { Algorithm } from '../algorithm.js';
import { hierarchicalReduceScatter } from './hierarchical.js';
import { pairwiseReduceScatter } from './pairwise.js';
import { recursiveHalving } from './recursive-halving.js';
import { ringReduceScatter } from './ring.js';
import { sharedDirectReduceScatter } from './shared-direct.js';

export const reduceScatterAlgorithms: readonly Algorithm[] = [
  recursiveHalving,
  pairwiseReduceScatter,
  ringReduceScatter,
  sharedDirectReduceScatter,
  hierarchicalReduceScatter,
];
