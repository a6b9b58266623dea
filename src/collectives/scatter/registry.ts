/** The algorithms of scatter. Ties in selection go to the earlier in the list. */

import type { Algorithm } from '../algorithm.js';
import { binomialScatter } from './binomial.js';
import { fanOutScatter } from './fan-out.js';
import { hierarchicalScatter } from './hierarchical.js';
import { linearScatter } from './linear.js';

export const scatterAlgorithms: readonly Algorithm[] = [binomialScatter, fanOutScatter, hierarchicalScatter, linearScatter];
