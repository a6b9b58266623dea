/** Timeouts and aborts: rank 0 waits for the others, which come late or never. */

import assert from 'node:assert/strict';
import { Communicator } from '../../../src/collectives/index.js';
import { asRank, say } from '../rank.js';

asRank(async ({ rank, size, exchange }) => {
  const late = await Communicator.create({ rank, size, exchange, key: 'late' });
  if (rank === 0) {
    assert.throws(() => late.allreduceSync(new Float32Array(1), 'sum', { timeoutMs: 50 }), { code: 'COLL_TIMEOUT' });
    await exchange.set('gave-up', '1');
  } else {
    await exchange.wait('gave-up');
    await assert.rejects(late.allreduce(new Float32Array(1)), { code: 'COLL_ABORTED' });
  }
  late.close();

  const aborted = await Communicator.create({ rank, size, exchange, key: 'aborted' });
  if (rank === 0) {
    const controller = new AbortController();
    const call = aborted.allreduce(new Float32Array(5000), 'sum', { signal: controller.signal });
    controller.abort(new Error('changed my mind'));
    await assert.rejects(call, /changed my mind/);
    await exchange.set('aborted', '1');
  } else {
    await exchange.wait('aborted');
    await assert.rejects(aborted.barrier(), { code: 'COLL_ABORTED' });
  }
  aborted.close();
  say({ done: true });
});
