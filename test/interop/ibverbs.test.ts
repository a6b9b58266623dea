/**
 * The ibverbs provider on the Linux kernel's own RDMA stack: rdma_rxe and siw in a guest. There run the tools of libibverbs, perftest and librdmacm, an all-reduce
 * and a training of four ranks; the roce provider on the host exchanges every operation with it; a peer is killed, and memory cannot be locked.
 */

import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { openDevice } from '../../src/verbs/index.js';
import { accepted, exchangeEverything } from './ibverbs/exchange.js';
import { attempt, dropGuest, HOST, inGuest, prepareGuest, SCRIPTS } from './ibverbs/guest.js';

const LIMIT_S = 420;
const TOOLS = ['ib_write_bw', 'ib_read_bw', 'ib_atomic_bw', 'rping', 'ibv_rc_pingpong'];
const STEPS = [
  ...['rc', 'uc', 'ud'].flatMap((type) => [`${type}-pingpong-they-listen`, `${type}-pingpong-they-connect`]),
  ...['ib_write_bw', 'ib_read_bw', 'ib_atomic_bw', 'rping-they-listen', 'rping-they-connect', 'roce'],
  ...['all-reduce', 'training'],
  ...['locked-memory', 'closed-while-connecting', 'peer-killed'],
];
const SIW_STEPS = ['siw-send', 'siw-write', 'siw-read', 'siw-disconnect'];
const COMMANDS = `
run doctor 100 "$NODE" bin/verbena.js doctor
run peer 200 "$NODE" dist/test/interop/ibverbs/peer.js "$OWN" "$HOST"
run ranks 200 "$NODE" bin/verbena.js run --virtual-hosts 4x1 dist/test/interop/ibverbs/rank.js
sanitized run faults 120 prlimit --memlock=65536:65536 setpriv --bounding-set=-ipc_lock "$NODE" dist/test/interop/ibverbs/faults.js "$NOBODY"
siw
`;

test("the ibverbs provider on the kernel's rdma_rxe and siw", { timeout: (LIMIT_S + 160) * 1000 }, async (t) => {
  const server = createServer();
  try {
    const fault = prepareGuest();
    if (fault !== undefined) {
      t.skip(fault);
      return;
    }
    for (const tool of TOOLS) {
      assert.equal(attempt('which', tool), undefined, `${tool} is missing: apt-get install perftest rdmacm-utils ibverbs-utils`);
    }
    const siwFault = attempt(join(SCRIPTS, 'ibverbs/siw.sh'));
    using device = await openDevice(`roce:${HOST}:4791`);
    server.listen(18670, HOST);
    const exchanged = accepted(server).then((socket) => exchangeEverything(device, socket, 1));
    exchanged.catch(() => {});
    const passed = new Set<string>();
    const lines: string[] = [];
    await inGuest(LIMIT_S, COMMANDS, (line) => {
      t.diagnostic(line);
      lines.push(line);
      const [word, name] = line.split(' ');
      if (word === 'PASS') passed.add(name);
    });
    for (const step of STEPS) await t.test(step, () => assert.ok(passed.has(step), `${step} did not pass`));
    for (const step of SIW_STEPS) {
      await t.test(step, { skip: siwFault ?? false }, () => assert.ok(passed.has(step), `${step} did not pass`));
    }
    await t.test('the roce provider did every operation', async () => {
      assert.equal((await exchanged).length, 9);
    });
    await t.test('doctor says which port would be chosen, and why', () => {
      const page = lines.join(' ').replaceAll(/\s+/g, ' ');
      assert.match(page, /rxe0 port 1 active, RoCE/);
      assert.match(page, /port 1 of rxe0: it is the only one; GID \d, ::ffff:[\d.]+: RoCE v2 with an IPv4 address/);
    });
  } finally {
    server.close();
    dropGuest();
  }
});
