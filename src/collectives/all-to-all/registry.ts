/** The algorithms of all-to-all. Ties in selection go to the earlier in the list. */

import type { Algorithm } from '../algorithm.js';
import { bruckAllToAll } from './bruck.js';
import { hierarchicalAllToAll } from './hierarchical.js';
import { linearAllToAll } from './linear.js';
import { pairwiseAllToAll } from './pairwise.js';
import { sharedDirectAllToAll } from './shared-direct.js';

export const allToAllAlgorithms: readonly Algorithm[] = [
  pairwiseAllToAll,
  bruckAllToAll,
  sharedDirectAllToAll,
  hierarchicalAllToAll,
  linearAllToAll,
];
