/**
 * Runs in the guest, on rdma_rxe, as a user who may lock 64 KiB: what goes wrong ends in words and errors, and the next thing works.
 */

import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { type Device, openDevice, VerbsError } from '../../../src/verbs/index.js';
import { Steps } from './steps.js';

const PATIENCE_MS = 60_000;
const RIGHTS = { localWrite: true, remoteRead: true, remoteWrite: true };
/** An address of the guest's network where nobody is, and a port where nobody listens. */
const [nobody, port] = [process.argv[2], '7190'];

const failure = (code: string, words: RegExp) => (error: unknown) =>
  VerbsError.is(error) && error.code === code && words.test(error.message);

function ends(device: Device) {
  const pd = device.allocPd();
  const cq = device.createCq({ mode: 'event' });
  return { pd, cq, qp: pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq }) };
}

/** The other process of 'peer-killed': connects, lends memory, and is never heard of again. */
async function victim(): Promise<void> {
  const device = await openDevice('ibverbs:rxe0');
  const { pd, qp } = ends(device);
  const memory = pd.register(device.alloc(16_384), RIGHTS);
  await device.connect('victim', qp, { privateData: Buffer.from(JSON.stringify(memory.remote())), timeoutMs: PATIENCE_MS });
  setInterval(() => {}, 1000);
}

async function main(): Promise<void> {
  const steps = new Steps();
  const device = await openDevice('ibverbs:rxe0');
  await steps.play('locked-memory', async () => {
    const pd = device.allocPd();
    pd.register(device.alloc(4096)).deregister();
    assert.throws(
      () => pd.register(device.alloc(1 << 20)),
      failure(
        'VERBS_NO_MEMORY',
        /no more than 64 KiB of memory can be registered at a time: raise it with 'ulimit -l unlimited'/,
      ),
    );
    pd.register(device.alloc(4096)).deregister();
  });
  await steps.play('closed-while-connecting', async () => {
    const { qp } = ends(device);
    const attempt = device.connect(`${nobody}:0/${port}`, qp, { timeoutMs: PATIENCE_MS });
    setTimeout(() => qp.close(), 100);
    await assert.rejects(attempt, failure('VERBS_CLOSED', /the queue pair was closed/));
  });
  await steps.play('peer-killed', async () => {
    using listener = await device.listen('victim');
    const child = fork(fileURLToPath(import.meta.url), ['victim']);
    const { pd, cq, qp } = ends(device);
    const request = await listener.accept({ timeoutMs: PATIENCE_MS });
    const { addr, rkey } = JSON.parse(Buffer.from(request.privateData).toString()) as { addr: number; rkey: number };
    const connection = await request.accept(qp);
    const near = pd.register(device.alloc(16_384), RIGHTS);
    const write = (id: number) => qp.postSend({ opcode: 'RDMA_WRITE', sgl: [near.slice()], remoteAddr: addr, rkey, id });
    for (let id = 0; id < 16; id++) write(id);
    assert.equal((await cq.next({ timeoutMs: PATIENCE_MS })).status, 'SUCCESS');
    child.kill('SIGKILL');
    let last = 'SUCCESS';
    for (let id = 16; last === 'SUCCESS'; id++) {
      write(id);
      last = (await cq.next({ timeoutMs: PATIENCE_MS })).status;
    }
    assert.ok(['RETRY_EXC_ERR', 'REM_ACCESS_ERR', 'WR_FLUSH_ERR'].includes(last), last);
    assert.match(await connection.closed, /the peer disconnected/);
    assert.equal(qp.state, 'ERR');
  });
  device.close();
  process.exit(steps.failures === 0 ? 0 : 1);
}

await (process.argv[2] === 'victim' ? victim() : main());
