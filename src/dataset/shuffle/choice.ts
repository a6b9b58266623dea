/** Which shuffle a session uses, and why. */

import type { ShuffleFactory } from './manager.js';
import { rdma } from './rdma.js';
import { sortTcp } from './sort-tcp.js';

export interface ShuffleChoice {
  readonly name: string;
  readonly reason: string;
  readonly factory: ShuffleFactory;
}

export function chooseShuffle(wanted: 'auto' | 'rdma' | 'sort-tcp' | ShuffleFactory, provider: string): ShuffleChoice {
  if (typeof wanted === 'function') {
    return { name: wanted.name || 'a manager of the program', reason: 'the program brought it', factory: wanted };
  }
  if (wanted === 'sort-tcp') return { name: 'sort-tcp', reason: 'asked for', factory: sortTcp };
  const reason =
    wanted === 'rdma'
      ? `asked for; ${provider} carries the READs`
      : `auto: the ranks share the provider ${provider}, whose READs do without the map side; sort-tcp would copy through sockets`;
  return { name: 'rdma', reason, factory: rdma };
}
