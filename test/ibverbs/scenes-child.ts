/**
 * Runs with the stub before libibverbs and as libmlx5 (VERBENA_STUB_RICH): what this machine's devices do not have. Prints one JSON object, what was
 * found by scene; the test looks at it and at what the stub was told.
 */

import { openSync, readdirSync, writeSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import { VerbsError } from '../../src/verbs/errors.js';
import type { QpAddress } from '../../src/verbs/index.js';
import { openDevice } from '../../src/verbs/open-device.js';
import type { IbverbsDevice } from '../../src/verbs/providers/ibverbs/device.js';
import { WorkCompletions } from '../../src/verbs/work-completions.js';

const CQ_ERR = 0;
const PORT_ERR = 10;
const QP_FATAL = 1;
const DEVICE_FATAL = 8;
const LID_CHANGE = 11;
const PKEY_CHANGE = 12;
const CLIENT_REREGISTER = 17;
const GID_CHANGE = 18;
/** Not of libibverbs: the stub puts a message into a shared receive queue. */
const MESSAGE = 1000;

const events = openSync(process.env['VERBENA_STUB_EVENTS'] as string, 'r+');
const raise = (type: number, element: number) => writeSync(events, Buffer.from(Uint32Array.of(type, element).buffer));
const report: Record<string, unknown> = {};
const faultOf = async (act: () => unknown): Promise<string> => {
  try {
    await act();
    return 'none';
  } catch (error) {
    return VerbsError.is(error) ? `${error.code}: ${error.message}` : String(error);
  }
};
const descriptors = () => readdirSync('/proc/self/fd').length;

/** A thread that is ended in the middle of its work takes its device with it. The first of them opens what the process keeps. */
async function worker(): Promise<void> {
  let before = 0;
  for (let i = 0; i < 3; i++) {
    if (i === 1) before = descriptors();
    const thread = new Worker(new URL('./worker-child.js', import.meta.url));
    await new Promise((resolve) => thread.once('message', resolve));
    await thread.terminate();
  }
  report['descriptorsLeft'] = descriptors() - before;
}

async function main(): Promise<void> {
  await worker();
  const device = await openDevice('ibverbs');
  const pd = device.allocPd();
  const cq = device.createCq({ depth: 256, mode: 'event' });
  const wcs = new WorkCompletions(16);
  const { qpTypes, dc, onDemand, srq: hasSrq, multicast } = device.capabilities;
  report['capabilities'] = { qpTypes, dc, onDemand, srq: hasSrq, multicast };

  const memory = pd.register(device.alloc(8192, { onDemand: true }), { localWrite: true, onDemand: true });
  report['srqTooLong'] = await faultOf(() => pd.createSrq({ maxWr: 2000 }));
  report['srqTooWide'] = await faultOf(() => pd.createSrq({ maxSge: 5 }));
  const srq = pd.createSrq({ maxWr: 1000, maxSge: 4 });
  srq.postRecv(Array.from({ length: 20 }, (_, id) => ({ sgl: [memory.slice(0, 64)], id })));
  srq.setLimit(10);
  const small = pd.createSrq({ maxWr: 3 });
  const drawer = pd.createQp({ type: 'UD', sendCq: cq, recvCq: cq, srq: small });
  const three = [{ id: 90 }, { id: 91 }, { id: 92 }];
  for (let i = 0; i < 20; i++) raise(MESSAGE, drawer.qpNum); // uses the others up
  device.pollEvent();
  while (cq.poll(wcs) > 0) {
    // they are not looked at
  }
  small.postRecv(three);
  for (let i = 0; i < 3; i++) raise(MESSAGE, drawer.qpNum);
  device.pollEvent();
  drawer.close();
  report['gathered'] = [...wcs.id.subarray(0, cq.poll(wcs))];
  const { srcQp, srcLid } = wcs.at(0);
  report['sender'] = { srcQp, srcLid };
  report['reposted'] = await faultOf(() => small.postRecv(three));

  const ud = pd.createQp({ type: 'UD', sendCq: cq, recvCq: cq });
  report['groupWithoutLid'] = await faultOf(() => ud.attachMulticast('ff12::5'));
  ud.attachMulticast('ff12::5', 0xc001);
  ud.detachMulticast('ff12::5', 0xc001);
  ud.attachMulticast('ff12::6', 0xc002);
  report['closedInGroup'] = await faultOf(() => ud.close());
  pd.createQp({ type: 'UD', sendCq: cq, recvCq: cq }).attachMulticast('ff12::7', 0xc003); // until the device is closed

  const dct = pd.createQp({ type: 'DCT', sendCq: cq, recvCq: cq, srq, dcKey: 9 });
  const dci = pd.createQp({ type: 'DCI', sendCq: cq, recvCq: cq });
  const early = dct.qpNum;
  await dct.connect();
  await dci.connect();
  report['target'] = { early, late: dct.qpNum, address: dct.address().qpNum, state: dct.state, initiator: dci.state };
  const there = { ah: pd.createAh({ gid: 'fe80::3', lid: 79 }), remoteQpn: dct.qpNum, dcKey: 9 };
  const remote = { remoteAddr: 4096, rkey: 7 };
  dci.postSend([
    { opcode: 'SEND_WITH_IMM', inlineData: Uint8Array.of(1, 2, 3), imm: 4, id: 1, ...there },
    { opcode: 'RDMA_WRITE', sgl: [memory.slice(0, 8), memory.slice(16, 8)], id: 2, ...remote, ...there },
    { opcode: 'ATOMIC_FETCH_AND_ADD', sgl: [memory.slice(0, 8)], add: 5n, id: 3, ...remote, ...there },
  ]);
  const prepared = dci.prepare({ opcode: 'SEND', local: memory, ...there });
  prepared.post(0, 100, 4);
  const ids: number[] = [];
  for (let n = cq.poll(wcs); n > 0; n = cq.poll(wcs)) ids.push(...wcs.id.subarray(0, n));
  report['dcCompletions'] = ids;
  there.ah.close();
  pd.createAh({ gid: 'fe80::4', lid: 80 }); // may take its place
  report['closedHandle'] = await faultOf(() => prepared.post(0, 100, 5));

  const qp = pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq });
  const peer = (gid: string): QpAddress => ({ ...qp.address(), qpNum: 5, av: { gid, lid: 70 } });
  report['faults'] = [];
  for (const errno of ['6e', '65', '16', '05']) {
    (report['faults'] as string[]).push(await faultOf(() => qp.connect(peer(`fd00::${errno}ee`))));
  }
  await qp.connect(peer('fd00::9'));

  // A completion event into the event loop, acknowledged before its queue goes.
  const waiting = cq.next({ timeoutMs: 20_000 });
  setTimeout(() => qp.postSend({ opcode: 'SEND', sgl: [memory.slice(0, 8)], id: 77 }), 200);
  report['event'] = (await waiting).id;

  const denied = { opcode: 'RDMA_WRITE', sgl: [memory.slice(0, 8)], remoteAddr: 4096, rkey: 0xdead, id: 81 } as const;
  qp.postSend([denied, { opcode: 'SEND', sgl: [memory.slice(0, 8)], id: 82, signaled: false }]);
  report['failed'] = [await cq.next(), await cq.next()].map(({ id, opcode, status, cause }) => [
    id,
    opcode,
    status,
    cause?.words,
  ]);
  report['stateAfterError'] = qp.state;

  // The port is another one after each of these.
  raise(LID_CHANGE, 1);
  report['changes'] = [];
  for (const code of [LID_CHANGE, PKEY_CHANGE, GID_CHANGE, CLIENT_REREGISTER]) {
    raise(code, 2);
    const { type } = await device.nextEvent({ timeoutMs: 20_000 });
    const late = pd.createQp({ type: 'UD', sendCq: cq, recvCq: cq });
    late.modify('INIT', { pkeyIndex: (device as IbverbsDevice).choice.pkeyIndex, port: 2, qkey: 1 });
    const { av } = late.address();
    (report['changes'] as unknown[]).push([type, av.lid, av.gid, device.gid]);
    late.close();
  }

  const shallow = device.createCq();
  raise(CQ_ERR, 0);
  report['overrun'] = [(await device.nextEvent({ timeoutMs: 20_000 })).type, await faultOf(() => shallow.poll(wcs))];

  raise(PORT_ERR, 1);
  raise(PORT_ERR, 2);
  raise(QP_FATAL, qp.qpNum);
  const heard = [await device.nextEvent({ timeoutMs: 20_000 }), await device.nextEvent({ timeoutMs: 20_000 })];
  report['heard'] = heard.map(({ type, qpNum }) => ({ type, ...(qpNum !== undefined && { own: qpNum === qp.qpNum }) }));
  report['stateAfterFatal'] = qp.state;
  qp.close();

  const stuck = faultOf(() => cq.next({ timeoutMs: 20_000 }));
  raise(DEVICE_FATAL, 0);
  report['stuck'] = await stuck;
  report['last'] = (await device.nextEvent({ timeoutMs: 20_000 })).type;
  report['initiatorAfterFatal'] = dci.state;
  report['poll'] = await faultOf(() => cq.poll(wcs));
  device.close();
}

await main();
console.log(JSON.stringify(report));
