/** A rank that waits on its own thread, where no timer runs, learns all the same that the rank it waits for is dead. */

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { it } from 'node:test';
import { runRanks } from './ranks.js';

const skipOf = (device: string) =>
  device.startsWith('ucx') && !existsSync('/usr/include/ucp/api/ucp.h') && 'needs apt-get install libucx-dev';

for (const device of ['roce', 'ucx:TLS=sm,self']) {
  it(`on ${device} a death is noticed by a rank that is blocked in a call and has nothing to send`, {
    skip: skipOf(device),
  }, async () => {
    let met = 0;
    const results = await runRanks('silent-death', 2, {
      watchdogMs: 120_000,
      env: () => ({ DEVICE: device }),
      heard: (_, { what }, ranks) => {
        // By then rank 0 stands in its call and what it sent is acknowledged: the process lives, though it does not answer.
        if (what === 'met' && ++met === 2) setTimeout(() => ranks[1].kill('SIGKILL'), 1500);
      },
    });
    assert.deepEqual(
      results.map(({ end }) => end),
      [0, 'SIGKILL'],
      results[0].stderr,
    );
    assert.equal(results[0].said.at(-1)?.['what'], 'told');
  });
}
