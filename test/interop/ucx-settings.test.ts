/** Settings reach UCX, from the name and from the environment, and what it made of them can be read; those that it cannot use are errors with words. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type Explanation, openContext } from '../../src/messaging/index.js';
import { loadUcx } from '../../src/messaging/ucx/addon.js';
import { VERBENA } from '../launch/job.js';

const skip = !existsSync('/usr/include/ucp/api/ucp.h') && 'needs apt-get install libucx-dev';

/** What two workers of a context explain of a message of 2000 bytes. */
async function explained(device: string): Promise<Explanation & { readonly engine: string }> {
  await using context = await openContext({ device });
  const [near, far] = await Promise.all([context.createWorker(), context.createWorker()]);
  const endpoint = near.connect(far.address);
  await endpoint.ready();
  return { engine: '', ...endpoint.explain('tag', 2000) };
}

test('explain shows the transports and thresholds that the settings lead to', { skip }, async () => {
  const tcp = await explained('ucx:TLS=tcp;NET_DEVICES=lo');
  assert.match(tcp.engine, /lane\[0\].*tcp\/lo/);
  assert.doesNotMatch(tcp.engine, /sysv|posix|shared memory/);
  const shared = await explained('ucx:UCX_TLS=sysv,self;RNDV_THRESH=1024');
  assert.match(shared.engine, /lane\[0\].*sysv\/memory/);
  assert.match(shared.engine, /memory of context\.alloc.*out of shared memory/);
  assert.equal(shared.protocol, 'rndv-get');
  assert.equal(shared.ranges.find(({ protocol }) => protocol === 'rndv-get')?.fromBytes, 1024);
  assert.equal((await explained('ucx:TLS=sysv,self')).protocol, 'eager-bcopy');
});

test('the environment holds where the name is silent', { skip }, async (context) => {
  context.after(() => delete process.env['UCX_TLS']);
  process.env['UCX_TLS'] = 'tcp';
  assert.match((await explained('ucx:NET_DEVICES=lo')).engine, /lane\[0\].*tcp\/lo/);
  assert.match((await explained('ucx:TLS=sysv,self')).engine, /lane\[0\].*sysv\/memory/);
});

test('what UCX cannot use is refused by name', { skip }, async () => {
  const refused = (device: string, code: string, message: RegExp) =>
    assert.rejects(openContext({ device }), { name: 'MessagingError', code, message });
  await refused('ucx:TLS', 'MSG_INVALID', /'TLS' is no setting of UCX: write 'ucx:TLS=tcp;NET_DEVICES=eth0'/);
  await refused('ucx:RNDV_THRESH=few', 'MSG_INVALID', /'few' is no value of UCX's setting RNDV_THRESH: see ucx_info -cf/);
  await refused('ucx:TLLS=tcp', 'MSG_INVALID', /no setting 'TLLS' for a context: did you mean TLS\?/);
  await refused('ucx:TLS=tcp;TCP_NODELAI=y', 'MSG_INVALID', /no setting 'TCP_NODELAI' for a context: did you mean TCP_NODELAY\?/);
  await refused(
    'ucx:LOG_FILE=stdout',
    'MSG_INVALID',
    /no setting 'LOG_FILE' for a context.*of the whole process go into the environment/,
  );
  await refused('ucx:TLS=pigeon', 'MSG_UNSUPPORTED', /with TLS=pigeon, NET_DEVICES=all.*ucx_info -d/);
  await refused('ucx:TLS=tcp;NET_DEVICES=eth77', 'MSG_UNSUPPORTED', /with TLS=tcp, NET_DEVICES=eth77/);
  await assert.rejects(openContext({ engine: 'ucx', device: 'shm' }), { code: 'MSG_INVALID' });
  await assert.rejects(openContext({ engine: 'verbs', device: 'ucx' }), { code: 'MSG_INVALID' });
});

test('a variable that is no setting is warned of', { skip }, () => {
  const env = { ...process.env, UCX_TLLS: 'tcp', UCX_TCP_NODELAY: 'y' };
  const child = fileURLToPath(new URL('./ucx/first-thread.js', import.meta.url));
  const { stderr } = spawnSync(process.execPath, [child], { encoding: 'utf8', timeout: 60_000, env });
  assert.match(stderr, /UCX has no setting UCX_TLLS: did you mean UCX_TLS\?/);
  assert.equal(stderr.match(/UCX has no setting/g)?.length, 1, stderr);
});

test('a setting of a transport has an effect, or is refused where UCX would ignore it', { skip }, async () => {
  const small = explained('ucx:TLS=tcp;NET_DEVICES=lo;TCP_TX_SEG_SIZE=4K');
  if (/^1\.1[0-7]\./.test(loadUcx().version())) {
    const message = /TCP_TX_SEG_SIZE.*from the environment alone: start the process with UCX_TCP_TX_SEG_SIZE=4K/;
    await assert.rejects(small, { code: 'MSG_INVALID', message });
  } else {
    const usual = await explained('ucx:TLS=tcp;NET_DEVICES=lo');
    assert.ok((await small).ranges[0].toBytes < usual.ranges[0].toBytes);
  }
});

test('UCX leaves the signals of faults to Node, also where a thread is the first to open it', { skip }, () => {
  const child = fileURLToPath(new URL('./ucx/first-thread.js', import.meta.url));
  const { stdout, stderr } = spawnSync(process.execPath, [child], { encoding: 'utf8', timeout: 60_000 });
  assert.equal(stdout, 'exit 0, taken 0\n', stderr);
});

test('verbena explain tag shows the same', { skip }, () => {
  const words = [VERBENA, 'explain', 'tag', '--engine', 'ucx:TLS=tcp;NET_DEVICES=lo', '--size', '64K', '--json'];
  const { stdout, stderr } = spawnSync(process.execPath, words, { encoding: 'utf8', timeout: 60_000 });
  assert.match(stdout, /tcp\/lo/, stderr);
  assert.doesNotThrow(() => JSON.parse(stdout), stdout);
});
