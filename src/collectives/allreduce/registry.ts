/** The algorithms of allreduce. Ties in selection go to the earlier in the list. */

import type { Algorithm } from '../algorithm.js';
import { allToAllDirect } from './all-to-all-direct.js';
import { binaryBlocksAllreduce } from './binary-blocks.js';
import { binomialTreeAllreduce } from './binomial-tree.js';
import { doubleBinaryTree } from './double-binary-tree.js';
import { halvingDoubling } from './halving-doubling.js';
import { hierarchicalAllreduce } from './hierarchical.js';
import { hierarchicalLeaders } from './hierarchical-leaders.js';
import { inNetwork } from './in-network.js';
import { linearAllreduce } from './linear.js';
import { multiRing } from './multi-ring.js';
import { parameterServer } from './parameter-server.js';
import { parameterServerDedicated } from './parameter-server-dedicated.js';
import { recursiveDoubling } from './recursive-doubling.js';
import { ring } from './ring.js';
import { ringPipelined } from './ring-pipelined.js';
import { sharedDirect } from './shared-direct.js';

export const allreduceAlgorithms: readonly Algorithm[] = [
  recursiveDoubling,
  halvingDoubling,
  binaryBlocksAllreduce,
  ring,
  ringPipelined,
  multiRing,
  doubleBinaryTree,
  binomialTreeAllreduce,
  hierarchicalAllreduce,
  hierarchicalLeaders,
  sharedDirect,
  parameterServer,
  allToAllDirect,
  linearAllreduce,
  parameterServerDedicated,
  inNetwork,
];
