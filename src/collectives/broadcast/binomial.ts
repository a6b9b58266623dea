/**
 * Binomial broadcast: in each round everybody who has the vector passes it on, so holders double.
 *
 * Steps   ceil(log2 p)
 * Bytes   n ceil(log2 p) out of the root's port
 * Wins    Small vectors: no fewer steps are possible.
 * Paper   Thakur, Rabenseifner, Gropp, IJHPCA 2005.
 */

import { type Algorithm, always, flatCost } from '../algorithm.js';
import { ceilLog2 } from '../powers.js';
import { binomialTree } from '../tree.js';
import { broadcastSchedule } from '../tree-algorithms.js';

export const binomialBroadcast: Algorithm = {
  collective: 'broadcast',
  name: 'binomial',
  description: 'everybody who has it passes it on; fewest steps, for small vectors',
  supports: always,
  schedule: (shape) => broadcastSchedule('binomial', binomialTree(shape.size), shape),
  cost(shape) {
    const { size: p, bytes: n } = shape;
    const steps = ceilLog2(p);
    return flatCost(shape, steps, n * steps, 0);
  },
};
