import assert from 'node:assert/strict';
import { createServer, type Server, type Socket } from 'node:net';
import { after, describe, it } from 'node:test';
import { encodeLifeline, FRAME, type LifelineFrame, LifelineReader } from './lifeline.js';
import { Liveness, type LivenessInit } from './liveness.js';
import type { Member } from './member.js';

const opened: { close(): void }[] = [];
after(() => {
  for (const one of opened.reverse()) one.close();
});

const member = (rank: number): Member => ({
  rank,
  host: { id: `host ${rank}`, machine: `host ${rank}`, boot: `host ${rank}`, name: `host${rank}` },
  pid: 1000 + rank,
  startTime: 1,
  numa: 0,
  nics: [],
  addresses: [],
  engine: 'auto',
  node: 'v20',
});

/** The other end of a lifeline, in the hands of the test. */
async function coordinator(init: Partial<LivenessInit> = {}) {
  const frames: LifelineFrame[] = [];
  const connected = new Promise<{ server: Server; socket: Promise<Socket> }>((resolve) => {
    let attached: (socket: Socket) => void;
    const socket = new Promise<Socket>((accept) => {
      attached = accept;
    });
    const server = createServer((one) => {
      const reader = new LifelineReader();
      one.on('data', (chunk) => frames.push(...(reader.push(chunk) ?? [])));
      one.on('error', () => {});
      attached(one);
    });
    server.listen(0, '127.0.0.1', () => resolve({ server, socket }));
  });
  const { server, socket } = await connected;
  opened.push(server);
  const liveness = new Liveness({
    rank: 1,
    members: [0, 1, 2].map(member),
    address: '127.0.0.1',
    port: (server.address() as { port: number }).port,
    ticket: 'the ticket',
    heartbeatMs: 0,
    silenceMs: 0,
    stallMs: 0,
    holder: -1,
    endWithCoordinator: false,
    ...init,
  });
  opened.push(liveness);
  return { liveness, frames, socket: await socket };
}

/** Blocks this thread until the words of the board change: the native thread alone works meanwhile. */
function blockUntil(done: () => boolean): void {
  const cell = new Int32Array(new SharedArrayBuffer(4));
  const deadline = performance.now() + 10_000;
  while (!done() && performance.now() < deadline) Atomics.wait(cell, 0, 0, 1);
  assert.ok(done());
}

async function heard(frames: readonly LifelineFrame[], type: number): Promise<LifelineFrame> {
  const deadline = performance.now() + 10_000;
  for (;;) {
    const found = frames.find((frame) => frame.type === type);
    if (found) return found;
    assert.ok(performance.now() < deadline, `no frame of type ${type}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

describe('the native side of a lifeline', () => {
  it('shows its ticket, and hears of deaths while JavaScript is blocked', async () => {
    const { liveness, frames, socket } = await coordinator();
    assert.equal((await heard(frames, FRAME.attach)).text, 'the ticket');
    const before = liveness.attention;
    await new Promise<void>((resolve) => socket.write(encodeLifeline(FRAME.lost, 2, 0, 'killed by SIGKILL'), () => resolve()));
    blockUntil(() => liveness.attention !== before);
    assert.deepEqual(liveness.lost, [{ rank: 2, host: 'host2', pid: 1002, reason: 'killed by SIGKILL' }]);
    assert.equal(liveness.stateOf(0), 'running');
    assert.throws(() => liveness.check(), /rank 2 \(pid 1002 on host2\) is lost: killed by SIGKILL/);
    liveness.check([0, 1]);
  });

  it('keeps the first word about a rank: who left is not lost later', async () => {
    const { liveness, socket } = await coordinator();
    const words = [
      encodeLifeline(FRAME.left, 0, 0, 'finished'),
      encodeLifeline(FRAME.lost, 0, 0, 'gone'),
      encodeLifeline(FRAME.lost, 2, 0, 'x'),
    ];
    await new Promise<void>((resolve) => socket.write(Buffer.concat(words), () => resolve()));
    blockUntil(() => liveness.stateOf(2) === 'lost');
    assert.equal(liveness.stateOf(0), 'left');
  });

  it('calls listeners once for each loss, also for one before they listened', async () => {
    const { liveness, socket } = await coordinator();
    socket.write(encodeLifeline(FRAME.lost, 2, 0, 'first'));
    const first = await new Promise((resolve) => liveness.onLost(resolve));
    const again: unknown[] = [];
    liveness.onLost((lost) => again.push(lost));
    assert.deepEqual(again, [first]);
  });

  it('counts the rank that holds the coordinator as lost when the connection ends, unless it said goodbye', async () => {
    const one = await coordinator({ holder: 0 });
    one.socket.destroy();
    blockUntil(() => one.liveness.stateOf(0) === 'lost');
    const two = await coordinator({ holder: 0 });
    two.socket.end(encodeLifeline(FRAME.bye));
    await heardEnd(two.socket);
    assert.equal(two.liveness.stateOf(0), 'running');
  });

  it('hears of its own loss, and does not take the others for lost then', async () => {
    const { liveness, socket } = await coordinator({ holder: 0 });
    socket.end(encodeLifeline(FRAME.lost, 1, 0, 'no word from its host'));
    await heardEnd(socket);
    blockUntil(() => liveness.stateOf(1) === 'lost');
    assert.equal(liveness.stateOf(0), 'running');
    assert.throws(() => liveness.check(), /^LaunchError: the other ranks took this one for dead .*: no word from its host/);
  });

  it('sends heartbeats, and takes silence for the loss of the host', async () => {
    const { liveness, frames } = await coordinator({ holder: 0, heartbeatMs: 20, silenceMs: 200 });
    await heard(frames, FRAME.beat);
    blockUntil(() => liveness.stateOf(0) === 'lost');
    assert.match(liveness.lost[0].reason, /no word from its host for 200 ms/);
  });

  it('is kept alive by heartbeats', async () => {
    const { liveness, socket } = await coordinator({ holder: 0, heartbeatMs: 20, silenceMs: 1000 });
    const beats = setInterval(() => socket.write(encodeLifeline(FRAME.beat)), 30);
    await new Promise((resolve) => setTimeout(resolve, 1300));
    clearInterval(beats);
    assert.equal(liveness.stateOf(0), 'running');
  });

  it('says where a blocked call waits, when asked and when it takes too long', async () => {
    const { liveness, frames, socket } = await coordinator({ stallMs: 100 });
    const slot = liveness.waits.enter(liveness.waits.site('receive'), 2, 7);
    socket.write(encodeLifeline(FRAME.where));
    assert.match((await heard(frames, FRAME.waiting)).text, /^2 7 \d+ receive$/);
    assert.match((await heard(frames, FRAME.stall)).text, /^2 7 \d+ receive$/);
    liveness.waits.leave(slot);
    frames.length = 0;
    socket.write(encodeLifeline(FRAME.where));
    assert.equal((await heard(frames, FRAME.waiting)).code, -1);
  });

  it('hands stall reports to listeners', async () => {
    const { liveness, socket } = await coordinator();
    const report = new Promise((resolve) => liveness.onStall(resolve));
    socket.write(encodeLifeline(FRAME.report, -1, 0, 'stalled: rank 0'));
    assert.equal(await report, 'stalled: rank 0');
  });
});

function heardEnd(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    socket.resume();
    socket.on('close', () => resolve());
  });
}
