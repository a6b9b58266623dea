/**
 * The ibverbs provider on a device that is a stand-in (stub.c): what an InfiniBand port is told about LIDs and partitions, and what a request costs in
 * the binding alone. The cost is the best of 100 batches of 6,400 one-element WRITEs, each posted by itself and all reaped 32 at a time, the
 * stub's own work included: posting counts, reaping copies an id.
 */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { loadIbverbs } from '../../src/verbs/providers/ibverbs/addon.js';

const SOURCES = ['stub.c', 'stub-dc.c'].map((name) => fileURLToPath(new URL(`../../../test/ibverbs/${name}`, import.meta.url)));
const CHILD = fileURLToPath(new URL('./stub-child.js', import.meta.url));
const SCENES = fileURLToPath(new URL('./scenes-child.js', import.meta.url));
const DOCTOR = fileURLToPath(new URL('../../../bin/verbena.js', import.meta.url));
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
    const { status, stderr } = spawnSync(
      'cc',
      ['-shared', '-fPIC', '-O2', '-Wall', '-Wextra', '-Werror', '-o', library, ...SOURCES],
      {
        encoding: 'utf8',
      },
    );
    assert.equal(status, 0, stderr);
    loadIbverbs(); // compiled here, where the stand-in is not in the way
  });
  after(() => rmSync(folder, { recursive: true }));
  let runs = 0;

  /** Runs a program with the stand-in; returns what it printed and what the stand-in was told. */
  function run(args: readonly string[], settings: Record<string, string>): { stdout: string; log: string } {
    const log = join(folder, `log-${runs++}`);
    const { status, stdout, stderr } = spawnSync(process.execPath, args, {
      encoding: 'utf8',
      timeout: 60_000,
      env: { ...process.env, LD_PRELOAD: preload, VERBENA_STUB_LOG: log, ...settings },
    });
    assert.equal(status, 0, stderr);
    return { stdout, log: readFileSync(log, 'utf8') };
  }

  function play(device: string, link: string): { report: Report; log: string } {
    const { stdout, log } = run([CHILD, device], { VERBENA_STUB_LINK: link });
    return { report: JSON.parse(stdout) as Report, log };
  }

  it('reaches an InfiniBand peer of the same subnet by LID, one of another by GID too, in the partition asked for', (t) => {
    const { report, log } = play('ibverbs:stub0?pkey=0x8005&sl=3', 'infiniband');
    assert.deepEqual(report.av, { gid: 'fe80::2', lid: 42 }, 'the active port is the second');
    assert.match(report.reasons.join('; '), /port 2 of stub0: you named it; GID 0.*; partition 0x8005: you named it/);
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
      ['ibverbs:stub0:7', /there is no port 7: there is port 1 of stub0, port 2 of stub0/],
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

  it('lists the ports that answer, and says which would be chosen and why', () => {
    const { stdout } = run([DOCTOR, 'doctor', '--json'], { VERBENA_STUB_MUTE: '1' });
    const { findings } = JSON.parse(stdout) as { findings: { area: string; what: string; found: string }[] };
    const words = findings.filter(({ area }) => area.startsWith('RDMA')).map(({ what, found }) => `${what}: ${found}`);
    assert.match(
      words[0],
      /^stub0 port 2: active, InfiniBand, 100 Gbit\/s, MTU 2048 of 4096, LID 42; GIDs 0: fe80::2; partitions 0x7fff/,
    );
    assert.match(
      words[1],
      /^would be chosen: port 2 of stub0: it is the only one; GID 0, fe80::2: .*; partition 0xffff: full member/,
    );
    assert.match(words[2], /^registering memory: .*memory/);
  });

  describe('with what the devices here do not have', () => {
    let found: Record<string, unknown>;
    let told: string;
    before(() => {
      const fifo = join(folder, 'events');
      symlinkSync(library, join(folder, 'libmlx5.so.1'));
      assert.equal(spawnSync('mkfifo', [fifo]).status, 0);
      const settings = { VERBENA_STUB_RICH: '1', VERBENA_STUB_EVENTS: fifo, LD_LIBRARY_PATH: folder };
      const { stdout, log } = run([SCENES], settings);
      found = JSON.parse(stdout) as Record<string, unknown>;
      told = log;
    });

    it('is ready for child processes before it registers anything', () => {
      assert.match(told, /^fork alive=0$/m);
      assert.equal(told.match(/^fork/gm)?.length, 1);
    });

    it('registers on demand where the device pages', () => {
      const expected = { qpTypes: ['RC', 'UC', 'UD', 'DCI', 'DCT'], dc: true, onDemand: true, srq: true, multicast: true };
      assert.deepEqual(found['capabilities'], expected);
      assert.match(told, /^register bytes=8192 access=0x41$/m, 'IBV_ACCESS_ON_DEMAND and local write');
    });

    it('keeps to the limits of shared receive queues', () => {
      const most = /VERBS_INVALID: a shared receive queue of stub0 has at most 1000 requests of 4 elements: got/;
      assert.match(String(found['srqTooLong']), most);
      assert.match(String(found['srqTooWide']), most);
      assert.match(told, /^srq limit=10$/m);
    });

    it('joins a multicast group of InfiniBand by its LID', () => {
      assert.match(String(found['groupWithoutLid']), /VERBS_INVALID: on InfiniBand a multicast group has a LID, 49152 to 65534/);
      assert.match(told, /^attach gid=ff12 lid=49153\ndetach gid=ff12 lid=49153$/m);
    });

    it('leaves multicast groups before a queue pair goes', () => {
      assert.equal(found['closedInGroup'], 'none');
      for (const lid of [49154, 49155]) assert.match(told, new RegExp(`^detach gid=ff12 lid=${lid}$`, 'm'));
    });

    it('moves DC queue pairs as mlx5 takes it, and a target has its number from RTR on', () => {
      assert.deepEqual(found['target'], { early: 0, late: 501, address: 501, state: 'RTR', initiator: 'RTS' });
      assert.match(told, /^dct key=9$/m);
      assert.doesNotMatch(told, /refused/);
    });

    it('names target and key with every DC request', () => {
      const requests = ['send-imm target=501 key=9 elements=101', 'write target=501 key=9 elements=2'];
      requests.push('add-5 target=501 key=9 elements=1', 'send target=501 key=9 elements=1');
      assert.deepEqual(
        told.match(/^dc .*/gm),
        requests.map((line) => `dc ${line}`),
      );
      assert.deepEqual(found['dcCompletions'], [1, 2, 3, 4]);
    });

    it('says why a queue pair cannot be moved', () => {
      const [late, unrouted, invalid, gone] = found['faults'] as string[];
      assert.match(late, /VERBS_NO_DEVICE: no way from fe80::2 to fd00::6eee: nobody answers for that address.*ETIMEDOUT/);
      assert.match(unrouted, /VERBS_NO_DEVICE: no way from fe80::2 to fd00::65ee: there is no route.*ENETUNREACH/);
      assert.match(invalid, /VERBS_INVALID: stub0 refuses to move the queue pair from INIT to RTR.*path MTU.*EINVAL/);
      assert.match(gone, /VERBS_NO_DEVICE: .*failed or was taken out; close it and open it again: EIO/);
    });

    it('takes completion and async events of its own port, and acknowledges each before its object goes', () => {
      assert.equal(found['event'], 77);
      assert.deepEqual(found['heard'], [{ type: 'PORT_ERR' }, { type: 'QP_FATAL', own: true }], 'port 1 is not ours');
      assert.equal(found['stateAfterFatal'], 'ERR');
    });

    it('has LID, partition and GID as they are after an event says that they changed', () => {
      assert.deepEqual(found['changes'], [
        ['LID_CHANGE', 52, 'fe80::2', 'fe80::2'],
        ['PKEY_CHANGE', 52, 'fe80::2', 'fe80::2'],
        ['GID_CHANGE', 52, 'fe80::102', 'fe80::102'],
        ['CLIENT_REREGISTER', 52, 'fe80::102', 'fe80::102'],
      ]);
      const inits = told.match(/^init pkey=\d port=2$/gm)?.map((line) => line[10]);
      assert.deepEqual(inits?.slice(-4), ['1', '2', '2', '2'], 'the default partition has moved');
    });

    it('tells the status of a failed request with the words and the code of the maker, and what a flushed one waited for', () => {
      const [first, second] = found['failed'] as [id: number, opcode: string, status: string, words: string][];
      assert.deepEqual(first.slice(0, 3), [81, 'RDMA_WRITE', 'REM_ACCESS_ERR']);
      assert.match(first[3], /\(the device's own code: 136\)/);
      assert.deepEqual(second.slice(0, 3), [82, 'SEND', 'WR_FLUSH_ERR']);
      assert.match(second[3], /request 81 failed with REM_ACCESS_ERR before this one/);
      assert.equal(found['stateAfterError'], 'ERR');
    });

    it('says that a completion queue overran', () => {
      const [type, words] = found['overrun'] as string[];
      assert.equal(type, 'CQ_ERR');
      assert.match(words, /VERBS_ILLEGAL: the completion queue of \d+ entries overran/);
    });

    it('waits for a completion without looking for it', () => {
      const [, armed, rang] = /arm polls=(\d+)\nring polls=(\d+)/.exec(told) ?? [];
      assert.ok(Number(rang) - Number(armed) <= 2, `${armed} polls before the wait, ${rang} after`);
    });

    it('gets back the shared requests of a queue pair that is closed with messages unread', () => {
      assert.deepEqual(found['gathered'], [90, 91, 92]);
      assert.equal(found['reposted'], 'none');
    });

    it('tells who sent a datagram: queue pair and LID', () => {
      assert.deepEqual(found['sender'], { srcQp: 9, srcLid: 61 });
    });

    it('refuses a prepared request whose address handle is closed', () => {
      assert.match(String(found['closedHandle']), /VERBS_INVALID: the address handle is closed/);
    });

    it('ends every wait when the device fails', () => {
      assert.match(String(found['stuck']), /VERBS_NO_DEVICE: the RDMA device failed/);
      assert.match(String(found['poll']), /VERBS_NO_DEVICE: the RDMA device failed/);
      assert.equal(found['last'], 'DEVICE_FATAL');
      assert.equal(found['initiatorAfterFatal'], 'ERR');
    });

    it('leaves no object and no descriptor behind, also where a thread is ended', () => {
      assert.equal(found['descriptorsLeft'], 0);
      assert.deepEqual([...new Set(told.match(/^close .*/gm))], ['close alive=0']);
    });
  });
});
