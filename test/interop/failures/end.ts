/**
 * One end of a failing conversation, a process of its own: 'peer' answers once and then only sits there; 'subject' has requests under way with it, and tells how
 * each ended. Words to and from the test go over the process channel.
 */

import { MessagingError, openContext, type Worker } from '../../../src/messaging/index.js';

/** How a call ended: name and code of its error. */
export type Ending = readonly [name: string, code: string | undefined];

export interface EndInput {
  readonly part: 'peer' | 'subject';
  readonly device: string;
  /** The subject waits in polls of the synchronous form: its event loop stands. */
  readonly polls: boolean;
}

/** From the ends. */
export type EndWord =
  | { readonly address: string }
  | { readonly outstanding: number }
  | { readonly cancelled: Record<string, Ending> }
  | { readonly endings: Record<string, Ending>; readonly state: string };

/** Silence after which a peer counts as lost where the fabric does not notice, ms. */
const KEEPALIVE_MS = 2000;

const say = (word: EndWord) => process.send?.(word);
const heard = () => new Promise<string>((resolve) => process.once('message', (word) => resolve(word as string)));

async function endingOf(call: Promise<unknown>): Promise<Ending> {
  try {
    await call;
    return ['none', undefined];
  } catch (error) {
    return [(error as Error).name, MessagingError.is(error) ? error.code : undefined];
  }
}

async function endingsOf(calls: Record<string, Promise<unknown>>): Promise<Record<string, Ending>> {
  const endings = await Promise.all(Object.values(calls).map(endingOf));
  return Object.fromEntries(Object.keys(calls).map((name, i) => [name, endings[i]]));
}

async function playPeer(worker: Worker): Promise<void> {
  say({ address: Buffer.from(worker.address).toString('base64') });
  const memory = worker.expose(worker.context.alloc(4096));
  const into = new Uint8Array(1);
  for (;;) {
    const { source } = await worker.recv(1, into, { timeoutMs: Number.POSITIVE_INFINITY });
    await worker.endpointOf(source)?.send(2, memory.pack());
  }
}

async function playSubject(worker: Worker, polls: boolean): Promise<void> {
  const endpoint = worker.connect(Buffer.from(await heard(), 'base64'));
  const greet = async () => {
    const key = new Uint8Array(1024);
    await endpoint.send(1, new Uint8Array(1));
    return key.slice(0, (await worker.recv(2, key, { from: endpoint })).length);
  };
  const remote = endpoint.unpack(await greet());
  const byte = new Uint8Array(8);
  const large = worker.context.alloc(1 << 20);

  const cancelled = worker.recvBegin(3, byte);
  cancelled.cancel();
  const endings = await endingsOf({
    cancelled: cancelled.wait(),
    aborted: worker.recv(3, byte, { signal: AbortSignal.timeout(100) }),
    late: worker.recv(3, byte, { timeoutMs: 100 }),
    lateSend: endpoint.send(3, large, { timeoutMs: 100 }),
  });
  await greet(); // it goes on
  say({ cancelled: endings });

  const calls = endingsOf({
    send: endpoint.send(4, large),
    receive: worker.recv(5, byte, { from: endpoint }),
    read: endpoint.stream.read(new Uint8Array(8)),
  });
  const polled = worker.postRecv(byte, 7, 0, -1, -1, endpoint.source);
  await new Promise((resolve) => process.send?.({ outstanding: 4 }, resolve));
  const poll = async () => {
    while (!worker.test(polled)) {
      if (polls) worker.poll();
      else await new Promise((resolve) => setTimeout(resolve, 10));
    }
  };
  const during = { ...(await endingsOf({ polled: poll() })), ...(await calls) };
  const after = await endingsOf({
    sendAfter: endpoint.send(6, byte),
    receiveAfter: worker.recv(6, byte, { from: endpoint }),
    getAfter: remote.get(0, byte),
  });
  say({ endings: { ...during, ...after }, state: endpoint.state });
}

const { part, device, polls } = JSON.parse(process.argv[2]) as EndInput;
process.on('disconnect', () => process.exit(0));
const engine = device.startsWith('ucx') ? 'ucx' : 'verbs';
const context = await openContext({ engine, device, name: part });
const worker = await context.createWorker({ keepaliveMs: KEEPALIVE_MS, timeoutMs: 60_000 });
await (part === 'peer' ? playPeer(worker) : playSubject(worker, polls));
