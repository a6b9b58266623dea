/** The algorithms of sharded-allreduce. Ties in selection go to the earlier in the list. */

import type { Algorithm } from '../algorithm.js';
import { canonicalTree } from './canonical-tree.js';

export const shardedAllreduceAlgorithms: readonly Algorithm[] = [canonicalTree];
