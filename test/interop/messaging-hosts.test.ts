/** The messaging suite between two hosts: this network namespace and another, joined by a virtual cable, a process in each; on UCX's TCP, and on RoCE. */

import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type MessagingFactory, messagingConformance } from '../../conformance/messaging.js';
import { type Context, openContext } from '../../src/messaging/index.js';
import { OWN_NETWORK_BITS, ownAddress } from './own-network.js';
import { Membrane } from './two-processes/membrane.js';
import { UCX_SKIPS } from './ucx/skips.js';

const FAR = fileURLToPath(new URL('./two-processes/far.js', import.meta.url));
const space = `verbena-msg-${process.pid}`;
const cable = `vb${process.pid}`;
const ip = (...words: string[]): boolean => spawnSync('ip', words, { stdio: 'ignore' }).status === 0;
const skip =
  process.getuid?.() !== 0 || !(ip('netns', 'add', `${space}-try`) && ip('netns', 'del', `${space}-try`))
    ? 'network namespaces need root'
    : false;

/** What cannot be played from two processes. */
const apart = [
  {
    reason: 'names are of one host; targets are for others',
    tests: ['connecting: a listener takes connections under its name, and both sides can send'],
  },
  {
    reason: 'what a receive of the synchronous form got lies in the process that called it',
    tests: [
      'bounds: a new receive does not overtake one that waits longer, when both find their messages behind one that is held back',
    ],
  },
  {
    reason: 'a Duplex and a heap are objects of the process that uses them',
    tests: [
      'stream: a Duplex on each side carries a pipeline both ways',
      'remote memory: a symmetric heap of three ranks: one offset, every rank',
    ],
  },
];

/** @param device of host 1, here, or 2, there */
function between(name: string, device: (host: number) => string, skips: MessagingFactory['skip'] = []): void {
  const folder = mkdtempSync(join(tmpdir(), 'verbena-line-'));
  const [there, back] = ['there', 'back'].map((pipe) => join(folder, pipe));
  let far: ChildProcess;
  let other: { open(): Promise<Context> };
  before(() => {
    assert.equal(spawnSync('mkfifo', [there, back]).status, 0);
    far = spawn('ip', ['netns', 'exec', space, process.execPath, FAR, device(2), there, back], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    other = new Membrane(back, there, {}).root as typeof other;
  });
  after(() => {
    far.kill('SIGKILL');
    rmSync(folder, { recursive: true });
  });
  messagingConformance({
    name,
    skip: [...apart, ...skips],
    // Contexts are opened here and there in turn.
    open: (nth) => (nth % 2 === 0 ? openContext({ device: device(1) }) : other.open()),
  });
}

if (skip) test('the messaging suite between two hosts', { skip });
else {
  before(() => {
    assert.ok(ip('netns', 'add', space));
    assert.ok(ip('link', 'add', cable, 'type', 'veth', 'peer', 'name', cable, 'netns', space));
    for (const [words, host] of [
      [[], 1],
      [['-n', space], 2],
    ] as const) {
      assert.ok(ip(...words, 'address', 'add', `${ownAddress(host)}/${OWN_NETWORK_BITS}`, 'dev', cable));
      assert.ok(ip(...words, 'link', 'set', cable, 'up'));
      ip(...words, 'link', 'set', 'lo', 'up');
    }
  });
  after(() => void ip('netns', 'del', space));
  if (existsSync('/usr/include/ucp/api/ucp.h')) {
    between('ucx, TCP between two network namespaces', () => `ucx:TLS=tcp;NET_DEVICES=${cable}`, UCX_SKIPS);
  }
  between('verbs on roce, between two network namespaces', (host) => `roce:${ownAddress(host)}`);
}
