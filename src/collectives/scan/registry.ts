/** The algorithms of scan. Ties in selection go to the earlier in the list. */

import type { Algorithm } from '../algorithm.js';
import { linearScan } from './linear.js';
import { recursiveDoublingScan } from './recursive-doubling.js';

export const scanAlgorithms: readonly Algorithm[] = [recursiveDoublingScan, linearScan];
