/** The algorithms of barrier. Ties in selection go to the earlier in the list. */

import type { Algorithm } from '../algorithm.js';
import { dissemination } from './dissemination.js';
import { hierarchicalBarrier } from './hierarchical.js';
import { treeBarrier } from './tree.js';

export const barrierAlgorithms: readonly Algorithm[] = [dissemination, treeBarrier, hierarchicalBarrier];
