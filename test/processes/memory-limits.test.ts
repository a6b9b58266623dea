/** Memory that is not there is an error at alloc, and memory that is not touched costs nothing. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openDevice } from '../../src/verbs/index.js';
import { processTest } from './harness.js';
import { Link, type Offer } from './link.js';

const MIB = 1 << 20;

processTest('a full memory file system is VERBS_NO_MEMORY at alloc, and what was allocated before is whole', async (hand) => {
  const directory = mkdtempSync(join(tmpdir(), 'verbena-tmpfs-'));
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=24m', 'tmpfs', directory]);
  if (mounted.status !== 0) {
    rmdirSync(directory);
    hand.context.skip(`cannot mount a small memory file system: ${String(mounted.stderr).trim() || mounted.error?.message}`);
    return;
  }
  try {
    const spender = hand.process('big-spender', { directory, piece: 3 * MIB });
    const spent = await spender.hear<{ pieces: number; code: string; message: string; intact: boolean; again: string }>('spent');
    assert.equal(spent.code, 'VERBS_NO_MEMORY', spent.message);
    assert.ok(spent.pieces >= 1 && spent.pieces <= 8, `${spent.pieces} pieces of 3 MiB in 24 MiB`);
    assert.ok(spent.intact, 'what was allocated can be used to the last byte');
    assert.equal(spent.again, 'works', 'freed memory can be had again');
    await spender.exited;
  } finally {
    spawnSync('umount', [directory]);
    rmdirSync(directory);
  }
});

/** Opens devices as long as there are files for them, and closes them. */
const OPENER = `
import { readdirSync } from 'node:fs';
const { openDevice } = await import(process.argv[1]);
const files = async () => (await new Promise((resolve) => setTimeout(resolve, 100)), readdirSync('/proc/self/fd').length);
(await openDevice('shm')).close();
const [before, devices] = [await files(), []];
const { code, message } = await (async () => { for (;;) devices.push(await openDevice('shm')); })().catch((error) => error);
for (const device of devices) device.close();
console.log(JSON.stringify({ opened: devices.length, code, message, left: (await files()) - before }));
`;

processTest('too many open files is an error that names the limit, and nothing stays open', async () => {
  const verbs = new URL('../../src/verbs/index.js', import.meta.url).href;
  for (const limit of [100, 101, 102, 103]) {
    const words = ['-c', `ulimit -n ${limit} && exec "$@"`, 'sh', process.execPath, '--input-type=module', '-e', OPENER, verbs];
    const { stdout, stderr } = spawnSync('sh', words, { encoding: 'utf8', timeout: 30_000 });
    assert.notEqual(stdout, '', stderr);
    const { opened, code, message, left } = JSON.parse(stdout) as Record<string, unknown>;
    assert.ok((opened as number) > 2, stdout);
    assert.equal(code, 'VERBS_SYSTEM', stdout);
    assert.match(message as string, /EMFILE.* raise ulimit -n/);
    assert.equal(left, 0, stdout);
  }
});

processTest('huge pages come from the pool of the machine, and a pool that is too small is VERBS_NO_MEMORY', async (hand) => {
  const setting = '/proc/sys/vm/nr_hugepages';
  const before = readFileSync(setting, 'utf8');
  const pages = (field: string) =>
    Number(new RegExp(`^HugePages_${field}:\\s+(\\d+)`, 'm').exec(readFileSync('/proc/meminfo', 'utf8'))?.[1]);
  try {
    writeFileSync(setting, String(Number(before) + 4));
  } catch (error) {
    hand.context.skip(`cannot set huge pages aside: ${(error as Error).message}`);
    return;
  }
  try {
    const free = pages('Free');
    if (free < 4) {
      hand.context.skip(`the kernel found only ${free} huge pages`);
      return;
    }
    const device = await openDevice('shm');
    const memory = new Uint8Array(device.alloc(3 * MIB, { hugePages: true }));
    memory.fill(7);
    assert.equal(pages('Free'), free - 2, '3 MiB are two huge pages');
    const many = (free + 1) * 2 * MIB;
    assert.throws(() => device.alloc(many, { hugePages: true }), { code: 'VERBS_NO_MEMORY', message: /nr_hugepages/ });
    assert.ok(memory.every((byte) => byte === 7));
    await device.close();
  } finally {
    writeFileSync(setting, before);
  }
});

processTest('an on-demand region of 4 GiB raises resident memory only by the pages touched', async (hand) => {
  const length = 4 * 1024 * MIB;
  const owner = hand.process('vast-owner', { length });
  const offer = await owner.hear<Offer & { grown: number }>('offer');
  assert.ok(offer.grown < 32 * MIB, `registration made ${(offer.grown / MIB).toFixed(1)} MiB resident`);
  const link = await Link.open(4096);
  await link.join(offer);
  owner.say({ type: 'offer', ...link.offer() });
  await owner.hear('ready');
  const pages = 200;
  const offsets = Array.from({ length: pages }, (_, i) => Math.floor((length - 4096) / pages) * i + 123);
  for (const [i, offset] of offsets.entries()) {
    link.region.bytes[0] = (i % 255) + 1;
    const { remote } = offer;
    link.qp.postSend({
      opcode: 'RDMA_WRITE',
      sgl: [link.region.slice(0, 1)],
      remoteAddr: remote.addr + offset,
      rkey: remote.rkey,
    });
    link.next();
  }
  owner.say({ type: 'touched', offsets });
  const report = await owner.hear<{ grown: number; bytes: number[] }>('report');
  assert.deepEqual(
    report.bytes,
    offsets.map((_, i) => (i % 255) + 1),
  );
  assert.ok(report.grown < 64 * MIB, `200 touched pages made ${(report.grown / MIB).toFixed(1)} MiB resident`);
  owner.say({ type: 'end' });
  await owner.exited;
  link.close();
});

processTest('memory comes from the NUMA node that was asked for, and a node that is not there is VERBS_INVALID', async (hand) => {
  const device = await openDevice('shm');
  try {
    const node = Number(/^\d+/.exec(readFileSync('/sys/devices/system/node/has_memory', 'utf8'))?.[0]);
    const memory = new Uint8Array(device.alloc(MIB, { numaNode: node }));
    memory.fill(1);
    const pages = readFileSync('/proc/self/numa_maps', 'utf8').match(/verbena-arena.* dirty=256 .*/)?.[0];
    assert.match(pages ?? '', new RegExp(` N${node}=256 `));
    for (const bad of [{ numaNode: 1023 }, { numaNode: 5000 }, { numaNode: -1 }, { numaNode: node, onDemand: true }]) {
      assert.throws(() => device.alloc(64, bad), { code: 'VERBS_INVALID' });
    }
  } catch (error) {
    // A container may forbid memory policies, or show no nodes.
    const { code, message } = error as NodeJS.ErrnoException;
    if (code !== 'ENOENT' && !/EPERM|ENOSYS/.test(message)) throw error;
    hand.context.skip(message);
  } finally {
    device.close();
  }
});
