/**
 * The other end of ibv_rc_pingpong, ibv_uc_pingpong and ibv_ud_pingpong: their handshake over TCP, and the game itself.
 *
 *     client ── "lid:qpn:psn:gid" ──> server          52 bytes of text, the NUL included
 *     client <── "lid:qpn:psn:gid" ── server
 *     client ── "done" ──> server                     then the client sends the first message
 *
 * The kernel's end sends out of the buffer it receives into, so what comes back to a client is what it sent.
 */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import type { CompletionQueue, Device, MemoryRegion, ProtectionDomain, QpAddress, QueuePair } from '../../../src/verbs/index.js';
import { parseIp } from '../../../src/verbs/ip-address.js';

const MESSAGE_BYTES = 52;
/** What the tools use. */
const QUEUE_KEY = 0x11111111;
const ROUTE_HEADER_BYTES = 40;
const DEPTH = 16;
const PATIENCE_MS = 50_000;

export interface Game {
  readonly type: 'RC' | 'UC' | 'UD';
  readonly size: number;
  readonly rounds: number;
  readonly port: number;
}

interface Ends {
  readonly pd: ProtectionDomain;
  readonly qp: QueuePair;
  readonly cq: CompletionQueue;
  readonly out: MemoryRegion;
  readonly into: MemoryRegion;
}

function makeEnds(device: Device, game: Game): Ends {
  const pd = device.allocPd();
  const cq = device.createCq();
  const header = game.type === 'UD' ? ROUTE_HEADER_BYTES : 0;
  const out = pd.register(device.alloc(game.size), { localWrite: true });
  const into = pd.register(device.alloc(game.size + header), { localWrite: true });
  for (let i = 0; i < game.size; i++) out.bytes[i] = i * 7 + (i >> 8);
  const qp = pd.createQp({ type: game.type, sendCq: cq, recvCq: cq });
  return { pd, qp, cq, out, into };
}

function encode({ qpNum, psn, av }: QpAddress): Buffer {
  const address = parseIp(av.gid) as Uint8Array;
  const hex = (value: number) => value.toString(16).padStart(6, '0');
  return Buffer.from(`0000:${hex(qpNum)}:${hex(psn)}:${Buffer.from(address).toString('hex')}\0`, 'latin1');
}

function decode(text: string, own: QpAddress): QpAddress {
  const [, qpNum, psn, gid] = text.split(':');
  const words = (gid.match(/.{4}/g) as string[]).join(':');
  return {
    v: 1,
    provider: 'roce',
    av: { gid: words },
    qpNum: Number.parseInt(qpNum, 16),
    psn: Number.parseInt(psn, 16),
    mtu: own.mtu,
    type: own.type,
  };
}

async function read(socket: Socket, bytes: number): Promise<Buffer> {
  for (;;) {
    const data = socket.read(bytes) as Buffer | null;
    if (data !== null) return data;
    await once(socket, 'readable');
  }
}

/** A connection to the kernel's end, as soon as it listens. */
export async function dial(host: string, port: number): Promise<Socket> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const socket = connect(port, host);
    try {
      await once(socket, 'connect');
      return socket;
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

async function play(ends: Ends, game: Game, peer: QpAddress, isFirst: boolean): Promise<void> {
  const { qp, cq, out, into } = ends;
  const ah = ends.pd.createAh(peer.av);
  const send = () => qp.postSend({ opcode: 'SEND', sgl: [out.slice()], id: 1, ah, remoteQpn: peer.qpNum, remoteQkey: QUEUE_KEY });
  const header = into.length - out.length;
  if (isFirst) send();
  for (let sent = 0, received = 0; sent < game.rounds || received < game.rounds; ) {
    const completion = await cq.next({ timeoutMs: PATIENCE_MS });
    // The tool leaves when it has everything, which its status says: an acknowledge of the last message that is lost then is not repeated.
    const isLast = completion.id === 1 && sent === game.rounds - 1 && received === game.rounds;
    if (isLast && completion.status === 'RETRY_EXC_ERR') return;
    assert.equal(completion.status, 'SUCCESS', completion.cause?.words);
    if (completion.id === 1) {
      sent++;
      continue;
    }
    received++;
    assert.equal(completion.byteLen, into.length);
    if (isFirst) assert.deepEqual(Buffer.from(into.bytes.subarray(header)), Buffer.from(out.bytes), `round ${received}`);
    if (received < game.rounds) qp.postRecv({ sgl: [into.slice()], id: 2 });
    if (isFirst ? received < game.rounds : true) send();
  }
}

async function prepare(ends: Ends, peer: QpAddress): Promise<void> {
  await ends.qp.connect(peer);
  for (let i = 0; i < (ends.qp.type === 'RC' ? 1 : DEPTH); i++) ends.qp.postRecv({ sgl: [ends.into.slice()], id: 2 });
}

/** Plays against a server of the tool at `host`. */
export async function playAsClient(device: Device, host: string, game: Game): Promise<void> {
  const ends = makeEnds(device, game);
  const socket = await dial(host, game.port);
  socket.write(encode(ends.qp.address()));
  const peer = decode((await read(socket, MESSAGE_BYTES)).toString('latin1'), ends.qp.address());
  await prepare(ends, peer);
  socket.write('done\0');
  await play(ends, game, peer, true);
  socket.destroy();
}

/** Waits for a client of the tool and plays against it. */
export async function playAsServer(device: Device, host: string, game: Game): Promise<void> {
  const ends = makeEnds(device, game);
  const server = createServer().listen(game.port, host).unref();
  const [socket] = (await once(server, 'connection')) as [Socket];
  server.close();
  const peer = decode((await read(socket, MESSAGE_BYTES)).toString('latin1'), ends.qp.address());
  await prepare(ends, peer);
  socket.write(encode(ends.qp.address()));
  await read(socket, 'done\0'.length);
  await play(ends, game, peer, false);
  socket.destroy();
}
