/** Runs with the stub before libibverbs. Prints one JSON line: what the port looks like, and what a request costs. */

import { VerbsError } from '../../src/verbs/errors.js';
import type { QpAddress } from '../../src/verbs/index.js';
import { openDevice } from '../../src/verbs/open-device.js';
import type { IbverbsDevice } from '../../src/verbs/providers/ibverbs/device.js';
import { WorkCompletions } from '../../src/verbs/work-completions.js';

const BATCHES = 100;
const ROUNDS = 200;
const WINDOW = 32;

const device = (await openDevice(process.argv[2] ?? 'ibverbs')) as IbverbsDevice;
const pd = device.allocPd();
const cq = device.createCq({ depth: 256 });
const qp = pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq });
const own = qp.address();
const peer = (gid: string, lid?: number): QpAddress => ({ ...own, qpNum: 5, av: { gid, ...(lid !== undefined && { lid }) } });
const codeOf = async (act: () => Promise<unknown> | unknown): Promise<string> => {
  try {
    await act();
    return 'none';
  } catch (error) {
    return VerbsError.is(error) ? `${error.code}: ${error.message}` : String(error);
  }
};

const isInfiniBand = own.av.lid !== undefined;
await qp.connect(peer('fe80::9', isInfiniBand ? 77 : undefined));
await qp.connect(peer('fd00::9', isInfiniBand ? 78 : undefined));
const withoutLid = await codeOf(() => qp.connect(peer('fe80::9')));
pd.createAh({ gid: 'fe80::3', ...(isInfiniBand && { lid: 79 }) });
await qp.connect(peer('fe80::9', isInfiniBand ? 77 : undefined));

const memory = pd.register(device.alloc(4096), { localWrite: true });
const tooMuch = await codeOf(() => pd.register(device.alloc((1 << 28) + 4096, { onDemand: true })));
const write = qp.prepare({ opcode: 'RDMA_WRITE', local: memory, remote: { addr: 4096, length: 4096, rkey: 7 } });
const wcs = new WorkCompletions(WINDOW);
let best = Number.POSITIVE_INFINITY;
for (let batch = 0; batch < BATCHES; batch++) {
  const start = process.hrtime.bigint();
  for (let round = 0; round < ROUNDS; round++) {
    for (let i = 0; i < WINDOW; i++) write.post(8 * i, 8, i);
    for (let n = 0; n < WINDOW; ) n += cq.poll(wcs);
  }
  best = Math.min(best, Number(process.hrtime.bigint() - start) / (ROUNDS * WINDOW));
}
qp.postSend(
  Array.from({ length: 32 }, (_, i) => ({ opcode: 'SEND' as const, sgl: [memory.slice(i, 1)], id: i, signaled: false })),
);
console.log(
  JSON.stringify({
    av: own.av,
    reasons: device.choice.reasons,
    mtu: own.mtu,
    maxInline: device.capabilities.maxInline,
    withoutLid,
    tooMuch,
    nanoseconds: best,
    requests: BATCHES * ROUNDS * WINDOW,
  }),
);
device.close();
