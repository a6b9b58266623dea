/** The connection manager with a librdmacm that is played by the test: what the kernel here never says, and what must be given back. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { VerbsError, type VerbsErrorCode } from '../../errors.js';
import { CommandBlock } from './command-block.js';
import { ConnectionManager } from './connection-manager.js';
import type { IbverbsDevice } from './device.js';
import type { IbverbsQueuePair } from './queue-pair.js';

const CONNECT_REQUEST = 4;
const ESTABLISHED = 9;
const DISCONNECTED = 10;
const DEVICE_REMOVAL = 11;
const PORT = '7194';
const TARGET = `192.0.2.1:0/${PORT}`;
const NOTHING = new Uint8Array(0);

const failure = (code: VerbsErrorCode) => (error: unknown) => VerbsError.is(error) && error.code === code;

/** A manager, the ids of librdmacm that are alive, and queue pairs. */
function stage() {
  const alive = new Set<number>();
  let last = 0;
  const make = (): number => {
    alive.add(++last);
    return last;
  };
  const addon = {
    cmListen: () => [make(), Number(PORT)],
    cmResolve: make,
    cmAccept: () => 0,
    cmReject: () => 0,
    cmDisconnect: () => 0,
    destroy: (_: number, id: number) => (alive.delete(id) ? 0 : 22),
  };
  const device = { addon, handle: 1, isClosed: false, hold: () => {}, progress: () => {}, block: new CommandBlock() };
  const choice = { device: { transport: 0, name: 'nic0' }, port: { number: 1 } };
  const manager = new ConnectionManager({ ...device, choice } as unknown as IbverbsDevice, () => '127.0.0.1');
  const queuePair = () => {
    const qp = { type: 'RC', qpNum: 5, state: 'RESET', stop: () => {}, moveManaged: () => {} };
    return qp as unknown as IbverbsQueuePair;
  };
  /** Somebody asks to be connected. */
  const ask = (listener: number): number => {
    const id = make();
    manager.happened(id, CONNECT_REQUEST, 0, NOTHING, listener);
    return id;
  };
  return { manager, alive, queuePair, ask };
}

describe('connections through librdmacm', () => {
  it('end when the device is removed: connections, attempts, requests and listeners', async () => {
    const { manager, alive, queuePair, ask } = stage();
    const listener = manager.listen(PORT);
    const [listening] = alive;
    const accepting = ask(listening);
    const request = await listener.accept();
    const accepted = request.accept(queuePair());
    manager.happened(accepting, ESTABLISHED, 0, NOTHING, 0);
    const connection = await accepted;
    const unanswered = ask(listening);
    const attempt = manager.connect(TARGET, queuePair(), {});
    await new Promise(setImmediate);
    const removed = [...alive];
    assert.deepEqual(removed, [listening, accepting, unanswered, unanswered + 1]);
    for (const id of removed) manager.happened(id, DEVICE_REMOVAL, 0, NOTHING, 0);
    await assert.rejects(attempt, failure('VERBS_NO_DEVICE'));
    assert.match(await connection.closed, /the RDMA device was removed/);
    await assert.rejects(listener.accept(), failure('VERBS_CLOSED'));
    assert.deepEqual([...alive], [], 'every id was given back');
  });

  it('an accept ends when the peer goes before it confirms', async () => {
    const { manager, alive, queuePair, ask } = stage();
    const listener = manager.listen(PORT);
    const id = ask([...alive][0]);
    const accepted = (await listener.accept()).accept(queuePair());
    manager.happened(id, DISCONNECTED, 0, NOTHING, 0);
    await assert.rejects(accepted, failure('VERBS_TIMEOUT'));
    listener.close();
    assert.deepEqual([...alive], []);
  });

  it('an attempt ends with its queue pair, and leaves that of others alone', async () => {
    const { manager, alive, queuePair } = stage();
    const [one, two] = [queuePair(), queuePair()];
    const [ended, going] = [manager.connect(TARGET, one, {}), manager.connect(TARGET, two, { timeoutMs: 100 })];
    going.catch(() => {});
    await new Promise(setImmediate);
    assert.equal(alive.size, 2);
    manager.queuePairClosed(one);
    await assert.rejects(ended, failure('VERBS_CLOSED'));
    assert.equal(alive.size, 1);
    await assert.rejects(going, failure('VERBS_TIMEOUT'));
    assert.equal(alive.size, 0);
  });

  it('closing rejects what waits and answers nothing afterwards', async () => {
    const { manager, alive, ask } = stage();
    const listener = manager.listen(PORT);
    ask([...alive][0]);
    const request = await listener.accept();
    manager.close();
    assert.deepEqual([...alive], []);
    request.reject();
    assert.deepEqual([...alive], []);
  });
});
