/**
 * Runs under strace: marks a stretch of polled operations with two calls that stand out in the trace. The same code runs many times before, so
 * that compiling and the first touch of pages lie outside the stretch.
 */

import { accessSync } from 'node:fs';
import type { PreparedSend } from '../../../src/verbs/index.js';
import { Link, type Offer } from '../link.js';
import { hear, say, scenario } from '../scenario.js';

function mark(name: string): void {
  try {
    accessSync(`/verbena-mark-${name}`);
  } catch {
    // There is no such file: the attempt is the mark.
  }
}

scenario<{ counts: number[] }>(async ({ counts }) => {
  const link = await Link.open(4096);
  say('offer', link.offer());
  const { remote, address } = await hear<Offer>('offer');
  await link.join({ remote, address });
  const loop = new Link(link.device, link.device.alloc(4096));
  await loop.join(loop.offer());
  const requests: [string, PreparedSend, number][] = [
    ['write', link.qp.prepare({ opcode: 'RDMA_WRITE', local: link.region, remote }), 8],
    ['read', link.qp.prepare({ opcode: 'RDMA_READ', local: link.region, remote }), 64],
    ['atomic', link.qp.prepare({ opcode: 'ATOMIC_FETCH_AND_ADD', local: link.region, remote }), 8],
  ];
  for (let round = 0; round < 5; round++) {
    for (const [, request, length] of requests) link.runOneSided(request, length, 40_000);
    loop.runMessages(40_000);
  }
  for (const count of counts) {
    for (const [name, request, length] of requests) {
      mark(`${name}-${count}-begin`);
      link.runOneSided(request, length, count);
      mark(`${name}-${count}-end`);
    }
    mark(`send-${count}-begin`);
    loop.runMessages(count);
    mark(`send-${count}-end`);
  }
  say('done');
  await hear('end');
  link.close();
});
