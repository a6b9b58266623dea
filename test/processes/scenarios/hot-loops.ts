/** Runs the hot forms of every operation and tells how many bytes of the JavaScript heap each took. */

import { Link } from '../link.js';
import { say, scenario } from '../scenario.js';

function polls(link: Link, count: number): void {
  for (let i = 0; i < count; i++) link.cq.poll(link.wcs);
}

/**
 * Bytes of heap per operation, the least of some rounds: compiling once more takes memory too. Nothing is collected within a round, because the
 * young generation is large.
 */
function bytesPerOperation(act: (count: number) => void): number {
  const count = 200_000;
  for (let i = 0; i < 5; i++) act(count);
  let least = Number.POSITIVE_INFINITY;
  for (let round = 0; round < 20 && least >= 1; round++) {
    (globalThis as unknown as { gc(): void }).gc();
    act(1000);
    const before = process.memoryUsage().heapUsed;
    act(count);
    least = Math.min(least, (process.memoryUsage().heapUsed - before) / count);
  }
  return least;
}

scenario(async () => {
  const link = await Link.open(4096);
  await link.join(link.offer());
  const remote = link.region.remote();
  const loop = (opcode: 'RDMA_WRITE' | 'RDMA_READ' | 'ATOMIC_FETCH_AND_ADD' | 'ATOMIC_CMP_AND_SWP', length: number) => {
    const request = link.qp.prepare({ opcode, local: link.region, remote });
    return bytesPerOperation((count) => link.runOneSided(request, length, count));
  };
  say('taken', {
    write: loop('RDMA_WRITE', 8),
    read: loop('RDMA_READ', 64),
    fetchAdd: loop('ATOMIC_FETCH_AND_ADD', 8),
    cmpSwap: loop('ATOMIC_CMP_AND_SWP', 8),
    message: bytesPerOperation((count) => link.runMessages(count)),
    emptyPoll: bytesPerOperation((count) => polls(link, count)),
  });
  link.close();
});
