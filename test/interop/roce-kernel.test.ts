/**
 * The roce provider against the Linux kernel's own transport: rdma_rxe in a guest, ibv_rc_pingpong, ibv_uc_pingpong, ibv_ud_pingpong, rping,
 * ib_send_bw, ib_write_bw, ib_read_bw and ib_atomic_bw; each tool once with the kernel's end listening and once connecting; RC with 1 % loss too. The guest is made by the scripts in rxe/.
 */

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type Device, openDevice } from '../../src/verbs/index.js';
import type { RoceDevice } from '../../src/verbs/providers/roce/device.js';
import { servePerftest } from './ibverbs/perftest.js';
import { OWN_NETWORK_BITS, ownAddress } from './own-network.js';
import { exchangeAtomics } from './rxe/atomics.js';
import { assertPattern, runPerftest } from './rxe/perftest-client.js';
import { type Game, playAsClient, playAsServer } from './rxe/pingpong.js';
import { runRping, serveRping } from './rxe/rping.js';

const HOST = ownAddress(1);
const GUEST = ownAddress(2);
const TAP = `vbt${process.pid % 100_000}`;
/** Scripts are not compiled: they stand beside the sources. */
const SCRIPTS = fileURLToPath(new URL('../../../test/interop/rxe/', import.meta.url));

/** Messages of a run of ib_send_bw and its like. */
const PERFTEST_MESSAGES = 100;
/** Bytes of a WRITE and of a READ there. */
const PERFTEST_BYTES = 65_536;

const GAMES: readonly [name: string, game: Game][] = [
  ['rc', { type: 'RC', size: 64, rounds: 200, port: 18510 }],
  ['rc-3000', { type: 'RC', size: 3000, rounds: 50, port: 18520 }],
  ['rc-mib', { type: 'RC', size: 1 << 20, rounds: 5, port: 18530 }],
  ['uc', { type: 'UC', size: 1000, rounds: 50, port: 18540 }],
  ['ud', { type: 'UD', size: 1000, rounds: 50, port: 18550 }],
  ['rc-loss', { type: 'RC', size: 3000, rounds: 200, port: 18560 }],
];

function run(...command: string[]): string | undefined {
  const { status, stderr, error } = spawnSync(command[0], command.slice(1), { encoding: 'utf8', timeout: 280_000 });
  return status === 0 ? undefined : `${command.join(' ')}: ${error?.message ?? stderr.slice(-500)}`;
}

/** Makes the guest's files and the interface it is on; says why this machine cannot. */
function prepare(): string | undefined {
  if (process.getuid?.() !== 0) return 'a tap interface and packages need root';
  if (!existsSync('/dev/net/tun')) return 'this kernel has no tap interfaces';
  return (
    run(`${SCRIPTS}setup.sh`) ??
    run('ip', 'tuntap', 'add', 'dev', TAP, 'mode', 'tap') ??
    run('ip', 'address', 'add', `${HOST}/${OWN_NETWORK_BITS}`, 'dev', TAP) ??
    run('ip', 'link', 'set', TAP, 'up')
  );
}

/** From now on one packet in a hundred from the guest and to it is lost. */
function lose(): void {
  const rule = 'udp dport 4791 numgen random mod 100 < 1 drop';
  const rules = [
    `add table inet ${TAP}`,
    `add chain inet ${TAP} in { type filter hook input priority 0; }`,
    `add chain inet ${TAP} out { type filter hook output priority 0; }`,
    `add rule inet ${TAP} in iifname ${TAP} ${rule}`,
    `add rule inet ${TAP} out oifname ${TAP} ${rule}`,
  ];
  assert.equal(run('nft', rules.join('; ')), undefined);
}

type Step = (device: Device) => Promise<void>;

const STEPS = new Map<string, Step>([
  ...GAMES.flatMap(([name, game]): [string, Step][] => [
    [`${name}-kernel-listens`, (device) => playAsClient(device, GUEST, game)],
    [`${name}-kernel-connects`, (device) => playAsServer(device, HOST, { ...game, port: game.port + 1 })],
  ]),
  ['atomics-kernel-listens', (device) => exchangeAtomics(device, GUEST, 18570)],
  ['write-bw-kernel-listens', (device) => runPerftest(device, GUEST, 18610, 'write', PERFTEST_BYTES, PERFTEST_MESSAGES)],
  ['read-bw-kernel-listens', (device) => runPerftest(device, GUEST, 18611, 'read', PERFTEST_BYTES, PERFTEST_MESSAGES)],
  ['send-bw-kernel-listens', (device) => runPerftest(device, GUEST, 18612, 'send', 3000, PERFTEST_MESSAGES)],
  ['atomic-bw-kernel-listens', (device) => runPerftest(device, GUEST, 18613, 'atomic', 8, PERFTEST_MESSAGES)],
  [
    'write-bw-kernel-connects',
    async (device) => assertPattern((await servePerftest(device, HOST, 18600)).memory.subarray(0, PERFTEST_BYTES)),
  ],
  ['read-bw-kernel-connects', async (device) => void (await servePerftest(device, HOST, 18601))],
  [
    'send-bw-kernel-connects',
    async (device) => {
      const { received, memory } = await servePerftest(device, HOST, 18602, PERFTEST_MESSAGES + 8);
      assert.ok(received >= PERFTEST_MESSAGES, `${received} messages came`);
      assertPattern(memory.subarray(0, 3000));
    },
  ],
  [
    'atomic-bw-kernel-connects',
    async (device) => {
      const { memory } = await servePerftest(device, HOST, 18603);
      assert.ok(
        memory.some((byte) => byte !== 0),
        'additions arrived',
      );
    },
  ],
  ['rping-kernel-listens', (device) => runRping(device, GUEST, 7174, 4000, 20)],
  [
    'rping-kernel-connects',
    async (device) => {
      assert.equal(await serveRping(device, 7175, 4000), 20);
    },
  ],
]);

test("the kernel's rdma_rxe and this provider understand each other", { timeout: 400_000 }, async (t) => {
  const fault = prepare();
  let device: RoceDevice | undefined;
  try {
    if (fault !== undefined) {
      t.skip(fault);
      return;
    }
    const opened = (await openDevice(`roce:${HOST}:4791`)) as RoceDevice;
    device = opened;
    // Who waits for the kernel's end to connect must be there before it tries.
    const waiting = new Map<string, Promise<void>>();
    for (const [name, step] of STEPS) if (name.endsWith('connects')) waiting.set(name, step(opened));
    for (const promise of waiting.values()) promise.catch(() => {});
    const guest = spawn(`${SCRIPTS}boot.sh`, [`${SCRIPTS}guest.sh`, TAP, `${GUEST}/${OWN_NETWORK_BITS}`], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, TIMEOUT: '340' },
    });
    const passed = new Set<string>();
    let current = '';
    let ours: Promise<void> | undefined;
    for await (const line of createInterface({ input: guest.stdout })) {
      t.diagnostic(line.replaceAll('\r', ''));
      const [word, value] = line.trim().split(' ');
      if (word === 'STEP') {
        current = value;
        if (current === 'rc-loss-kernel-listens') lose();
        ours = waiting.get(current) ?? STEPS.get(current)?.(opened);
        ours?.catch((error: Error) => t.diagnostic(`${current}: ${error.message}`));
      } else if (word === 'END') {
        await t.test(current, async () => {
          assert.equal(value, '0', `the kernel's end of ${current} ended with status ${value}`);
          await ours;
        });
        passed.add(current);
      }
    }
    const counters = opened.transportCounters();
    t.diagnostic(JSON.stringify(counters));
    // The kernel's packets have identifications of their own; after the first one they are known, but for some that waited for long.
    assert.ok(counters.assumedIcrc < counters.packetsReceived / 10, `${counters.assumedIcrc} ICRCs were not checked whole`);
    assert.equal(counters.badIcrc, 0);
    assert.deepEqual([...passed].sort(), [...STEPS.keys()].sort(), 'every step ran');
  } finally {
    device?.close();
    run('nft', 'delete', 'table', 'inet', TAP);
    run('ip', 'link', 'delete', TAP);
  }
});
