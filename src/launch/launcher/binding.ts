/** Which CPUs each rank of a host may use. */

import { cores, numaNodes } from '../host.js';

export type Binding = 'core' | 'numa' | 'none';

/**
 * CPUs of a rank, or undefined for all.
 * - core: one core each (with its hardware threads), in turn when there are more ranks than cores; ranks that have room get several neighbouring ones
 * - numa: one NUMA node each, ranks spread evenly in blocks
 */
export function cpusFor(binding: Binding, localRank: number, localSize: number, root = '/'): number[] | undefined {
  if (binding === 'none') return undefined;
  if (binding === 'numa') {
    const nodes = numaNodes(root);
    return nodes[Math.floor((localRank * nodes.length) / localSize)];
  }
  const all = cores(root);
  if (localSize > all.length) return all[localRank % all.length];
  const from = Math.floor((localRank * all.length) / localSize);
  const to = Math.floor(((localRank + 1) * all.length) / localSize);
  return all.slice(from, to).flat();
}
