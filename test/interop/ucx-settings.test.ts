/** Settings reach UCX, from the name and from the environment, and what it made of them can be read; those that it cannot use are errors with words. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { type Explanation, openContext } from '../../src/messaging/index.js';
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
  await refused('ucx:RNDV_THRESH=few', 'MSG_INVALID', /'RNDV_THRESH'.*ucx_info -cf/);
  await refused('ucx:TLS=pigeon', 'MSG_UNSUPPORTED', /with TLS=pigeon, NET_DEVICES=all.*ucx_info -d/);
  await refused('ucx:TLS=tcp;NET_DEVICES=eth77', 'MSG_UNSUPPORTED', /with TLS=tcp, NET_DEVICES=eth77/);
  await assert.rejects(openContext({ engine: 'ucx', device: 'shm' }), { code: 'MSG_INVALID' });
  await assert.rejects(openContext({ engine: 'verbs', device: 'ucx' }), { code: 'MSG_INVALID' });
});

test('verbena explain tag shows the same', { skip }, () => {
  const words = [VERBENA, 'explain', 'tag', '--engine', 'ucx:TLS=tcp;NET_DEVICES=lo', '--size', '64K', '--json'];
  const { stdout, stderr } = spawnSync(process.execPath, words, { encoding: 'utf8', timeout: 60_000 });
  assert.match(stdout, /tcp\/lo/, stderr);
  assert.doesNotThrow(() => JSON.parse(stdout), stdout);
});
