/** The algorithms of reduce. Ties in selection go to the earlier in the list. */

import type { Algorithm } from '../algorithm.js';
import { binomialReduce } from './binomial.js';
import { fanInReduce } from './fan-in.js';
import { hierarchicalReduce } from './hierarchical.js';
import { linearReduce } from './linear.js';
import { sharedDirectReduce } from './shared-direct.js';

export const reduceAlgorithms: readonly Algorithm[] = [
  binomialReduce,
  hierarchicalReduce,
  sharedDirectReduce,
  fanInReduce,
  linearReduce,
];
