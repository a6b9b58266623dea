/** The algorithms of gather. Ties in selection go to the earlier in the list. */

import type { Algorithm } from '../algorithm.js';
import { binomialGather } from './binomial.js';
import { fanInGather } from './fan-in.js';
import { hierarchicalGather } from './hierarchical.js';
import { linearGather } from './linear.js';

export const gatherAlgorithms: readonly Algorithm[] = [binomialGather, fanInGather, hierarchicalGather, linearGather];
