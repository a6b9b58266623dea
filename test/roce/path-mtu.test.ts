/** A path MTU that the other end cannot carry is named when the connection is made, not found out by lost packets. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openDevice, VerbsError } from '../../src/verbs/index.js';
import { RoceDevice } from '../../src/verbs/providers/roce/device.js';

test('a request with a larger path MTU than the listener has is refused with the reason, on both sides', async () => {
  const big = await openDevice('roce');
  const small = await RoceDevice.open({ network: '', host: '127.0.0.1', port: 0, mtu: 1024 }, {});
  const qpOf = (device: typeof big) => {
    const cq = device.createCq();
    return device.allocPd().createQp({ type: 'RC', sendCq: cq, recvCq: cq });
  };
  const listener = await small.listen(`path-mtu-${process.pid}`);
  const refused = assert.rejects(
    big.connect(listener.name, qpOf(big)),
    (error) => VerbsError.is(error) && error.code === 'VERBS_REFUSED' && /path MTU, 4096/.test(error.message),
  );
  const request = await listener.accept({ timeoutMs: 60_000 });
  await assert.rejects(
    request.accept(qpOf(small)),
    (error) => VerbsError.is(error) && error.code === 'VERBS_INVALID' && /4096 bytes.* 1024/.test(error.message),
  );
  await refused;
  const [one, two] = [qpOf(big), qpOf(small)];
  await one.connect(two.address());
  assert.equal(one.query().pathMtu, 1024, 'a manual exchange takes the smaller one');
  two.modify('INIT', { pkeyIndex: 0, port: 1, accessFlags: 0 });
  const reach = { av: one.address().av, destQpNum: one.qpNum, rqPsn: 0, maxDestRdAtomic: 1, minRnrTimer: 1 };
  assert.throws(
    () => two.modify('RTR', { ...reach, pathMtu: 4096 }),
    (error) => VerbsError.is(error) && error.code === 'VERBS_INVALID' && /4096/.test(error.message),
  );
  big.close();
  small.close();
});
