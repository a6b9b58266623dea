import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { Coordinator } from '../coordinator.js';
import { LaunchError } from '../errors.js';
import { MAGIC, makeSecret, PROTOCOL } from './authentication.js';
import { encodeFrame, type Frame, FrameReader } from './frame.js';
import { TcpStore } from './tcp-store.js';

const secret = makeSecret();
const log: string[] = [];
let coordinator: Coordinator;

before(async () => {
  coordinator = await Coordinator.listen({ size: 2, secret, version: '1.0.0', log: (line) => log.push(line) });
});
after(() => coordinator.close());

const open = (given: { secret?: string; version?: string }) =>
  TcpStore.connect({ host: '127.0.0.1', port: coordinator.port, secret, version: '1.0.0', ...given });

const refusal = (code: string, words: RegExp) => (error: unknown) => {
  assert.ok(LaunchError.is(error), String(error));
  assert.equal(error.code, code);
  assert.match(error.message, words);
  return true;
};

describe('the secret of a job', () => {
  it('lets in who has it', async () => {
    const store = await open({});
    await store.set('a', 'b');
    store.close();
  });

  it('keeps out a wrong one, says so, and logs where it came from', async () => {
    log.length = 0;
    await assert.rejects(open({ secret: makeSecret() }), refusal('LAUNCH_REFUSED', /secret is wrong.*VERBENA_SECRET/));
    assert.match(log.join(), /refused 127\.0\.0\.1:\d+: wrong secret/);
    assert.ok(!log.join().includes(secret));
  });

  it('keeps out who has none', async () => {
    log.length = 0;
    await assert.rejects(open({ secret: '' }), refusal('LAUNCH_REFUSED', /secret is missing/));
    assert.match(log.join(), /no secret/);
  });

  it('must have 16 characters or more', async () => {
    await assert.rejects(
      Coordinator.listen({ size: 1, secret: 'short', version: '1', log: () => {} }),
      refusal('LAUNCH_INVALID', /VERBENA_SECRET/),
    );
  });

  it('is not shown to a server that does not know it, and such a server is refused', async () => {
    const impostor = await Coordinator.listen({ size: 2, secret: makeSecret(), version: '1.0.0', log: () => {} });
    await assert.rejects(
      TcpStore.connect({ host: '127.0.0.1', port: impostor.port, secret, version: '1.0.0' }),
      refusal('LAUNCH_REFUSED', /secret/),
    );
    impostor.close();
  });
});

describe('a stranger', () => {
  const talk = async (bytes: Buffer): Promise<{ frames: Frame[]; closed: boolean }> => {
    const socket = connect(coordinator.port, '127.0.0.1');
    const frames: Frame[] = [];
    const reader = new FrameReader(1 << 20, (frame) => frames.push(frame));
    socket.on('data', (chunk) => reader.push(chunk));
    socket.on('error', () => {});
    socket.write(bytes);
    await once(socket, 'close');
    return { frames, closed: true };
  };

  it('of another version is told both versions', async () => {
    await assert.rejects(open({ version: '2.0.0' }), refusal('LAUNCH_VERSION', /2\.0\.0.*1\.0\.0.*same version/));
  });

  it('of another protocol is refused before anything else', async () => {
    const { frames } = await talk(encodeFrame({ magic: MAGIC, protocol: PROTOCOL + 1, version: '1.0.0', nonce: 'x' }));
    assert.equal((frames[0].header['error'] as { code: string }).code, 'LAUNCH_VERSION');
  });

  it('that speaks something else is cut off and logged', async () => {
    log.length = 0;
    await talk(Buffer.from('GET / HTTP/1.1\r\nHost: x\r\n\r\n'));
    assert.match(log.join(), /refused/);
  });

  it('cannot announce a frame larger than a proof', async () => {
    const huge = Buffer.alloc(8);
    huge.writeUInt32LE(1 << 30, 0);
    assert.equal((await talk(huge)).closed, true);
  });

  it('cannot attach a lifeline without a ticket', async () => {
    log.length = 0;
    const frame = Buffer.alloc(20);
    frame.writeInt32LE(1, 0);
    frame.writeInt32LE(4, 12);
    frame.write('nope', 16);
    await talk(frame);
    assert.match(log.join(), /ticket/);
  });
});

describe('the port of the store', () => {
  it('that somebody else has is an error that says what to do', async () => {
    await assert.rejects(
      Coordinator.listen({ size: 1, secret, version: '1', port: coordinator.port, log: () => {} }),
      refusal('LAUNCH_PORT_IN_USE', new RegExp(`port ${coordinator.port}.*choose another port`)),
    );
  });

  it('of an address that this host does not have is an error as well', async () => {
    await assert.rejects(
      Coordinator.listen({ size: 1, secret, version: '1', address: '192.0.2.1', log: () => {} }),
      refusal('LAUNCH_HOST', /192\.0\.2\.1.*MASTER_ADDR/),
    );
  });

  it('where nobody listens is named after the timeout', async () => {
    const closed = await Coordinator.listen({ size: 1, secret, version: '1', log: () => {} });
    const { port } = closed;
    closed.close();
    await assert.rejects(
      TcpStore.connect({ host: '127.0.0.1', port, secret, version: '1', timeoutMs: 120 }),
      refusal('LAUNCH_TIMEOUT', new RegExp(`127\\.0\\.0\\.1:${port}`)),
    );
  });
});
