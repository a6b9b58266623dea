/**
 * The ibverbs provider on a device that is a stand-in (stub.c): what an InfiniBand port is told about LIDs and partitions, and what a request costs in
 * the binding alone. The cost is the best of 100 batches of 6,400 one-element WRITEs, each posted by itself and all reaped 32 at a time, the
 * stub's own work included: posting counts, reaping copies an id.
 */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { loadIbverbs } from '../../src/verbs/providers/ibverbs/addon.js';

const SOURCE = fileURLToPath(new URL('../../../test/ibverbs/stub.c', import.meta.url));
const CHILD = fileURLToPath(new URL('./stub-child.js', import.meta.url));
/** What the binding may take beside other tests, nanoseconds a request; it takes under 100 on a core of its own, and the test prints how many. */
const LIMIT_NS = 500;

interface Report {
  readonly av: { gid: string; lid?: number };
  readonly reasons: string[];
  readonly mtu: number;
  readonly maxInline: number;
  readonly withoutLid: string;
  readonly tooMuch: string;
  readonly nanoseconds: number;
  readonly requests: number;
}

function missing(): string | false {
  return existsSync('/usr/include/infiniband/verbs.h') && existsSync('/usr/include/rdma/rdma_cma.h')
    ? false
    : 'needs apt-get install libibverbs-dev librdmacm-dev';
}

describe('the ibverbs provider on a stand-in of libibverbs', { skip: missing() }, () => {
  let folder: string;
  let library: string;
  let preload: string;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'verbena-stub-'));
    library = join(folder, 'stub.so');
    // Behind what is preloaded already: a sanitizer comes first.
    preload = [process.env['LD_PRELOAD'], library].filter(Boolean).join(' ');
  });
  after(() => rmSync(folder, { recursive: true }));
  let runs = 0;

  function play(device: string, link: string): { report: Report; log: string } {
    if (runs === 0) {
      const { status, stderr } = spawnSync('cc', ['-shared', '-fPIC', '-O2', '-o', library, SOURCE], { encoding: 'utf8' });
      assert.equal(status, 0, stderr);
      loadIbverbs(); // compiled here, where the stand-in is not in the way
    }
    const log = join(folder, `log-${runs++}`);
    const { status, stdout, stderr } = spawnSync(process.execPath, [CHILD, device], {
      encoding: 'utf8',
      timeout: 60_000,
      env: { ...process.env, LD_PRELOAD: preload, VERBENA_STUB_LOG: log, VERBENA_STUB_LINK: link },
    });
    assert.equal(status, 0, stderr);
    return { report: JSON.parse(stdout) as Report, log: readFileSync(log, 'utf8') };
  }

  it('reaches an InfiniBand peer of the same subnet by LID, one of another by GID too, in the partition asked for', (t) => {
    const { report, log } = play('ibverbs:stub0?pkey=0x8005&sl=3', 'infiniband');
    assert.deepEqual(report.av, { gid: 'fe80::2', lid: 42 }, 'the active port is the second');
    assert.match(report.reasons.join('; '), /port 2 of stub0: you named it; GID 0/);
    assert.match(log, /^init pkey=2 port=2$/m, 'index 2 is partition 0x8005');
    assert.match(log, /^rtr dlid=77 global=0 gid=0000\.\.00 port=2 sl=3 hops=0$/m);
    assert.match(log, /^rtr dlid=78 global=1 gid=fd00\.\.09 port=2 sl=3 hops=64$/m);
    assert.match(log, /^ah dlid=79 global=0/m);
    assert.match(report.withoutLid, /VERBS_INVALID: an InfiniBand peer is reached by its LID/);
    assert.match(report.tooMuch, /VERBS_NO_MEMORY: .*cannot be registered: .*(locked|registered)/);
    assert.equal(report.maxInline, 128, 'the largest size that a queue pair could be made with');
    const counts = /^counts posted=(\d+) received=0 polled=(\d+) doorbells=(\d+)$/m.exec(log.slice(log.lastIndexOf('counts')));
    assert.ok(counts, log);
    assert.equal(Number(counts[1]), report.requests + 32, 'every request reached the device once');
    assert.equal(Number(counts[2]), report.requests, 'and every completion came back');
    assert.equal(Number(counts[3]), report.requests + 1, 'a chain of 32 rings once');
    t.diagnostic(`the binding takes ${report.nanoseconds.toFixed(1)} ns a request, posting and reaping`);
    assert.ok(report.nanoseconds < LIMIT_NS, `${report.nanoseconds} ns a request`);
  });

  it('takes the full member of the default partition where none is named, and a GID on Ethernet', () => {
    const { report, log } = play('ibverbs', 'ethernet');
    assert.deepEqual(report.av, { gid: 'fe80::2' });
    assert.match(log, /^init pkey=1 port=2$/m);
    assert.match(log, /^rtr dlid=0 global=1 gid=fe80\.\.09 port=2/m);
    assert.match(report.reasons.join('; '), /only a link-local RoCE v2 address/);
  });

  it('says what there is when a device, port, GID or partition is asked for that is not there', () => {
    for (const [device, words] of [
      ['ibverbs:nope', /no RDMA device 'nope': this machine has stub0/],
      ['ibverbs:stub0:1', /port 1 of stub0 is down/],
      ['ibverbs:stub0?gid=7', /has no GID 7: it has 0 \(fe80::2\)/],
      ['ibverbs:stub0?pkey=9', /not in partition 0x9: it is in 0x7fff, 0xffff, 0x8005/],
      ['ibverbs:stub0?mtu=9', /no option 'mtu=9'/],
    ] as const) {
      const { status, stderr } = spawnSync(process.execPath, [CHILD, device], {
        encoding: 'utf8',
        timeout: 60_000,
        env: { ...process.env, LD_PRELOAD: preload },
      });
      assert.notEqual(status, 0);
      assert.match(stderr, words);
    }
  });
});
