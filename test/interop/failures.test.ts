/**
 * Failures mean the same on every engine: a killed peer, one that stands still, a cable that is cut and requests that are given up end with the same errors on shared memory, on RoCE and
 * on UCX. Networks are two namespaces joined by a veth pair, with a process in each.
 */

import assert from 'node:assert/strict';
import { type ChildProcess, fork, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { VethNetwork } from '../roce/network.js';
import type { EndInput, Ending, EndWord } from './failures/end.js';

const LIMIT_MS = 120_000;
/** Longer than a far peer may be silent (failures/end.ts). */
const STILL_MS = 3500;

const LOST: Ending = ['PeerLost', 'MSG_PEER_LOST'];
const AFTER_LOSS = { polled: LOST, send: LOST, receive: LOST, read: LOST, sendAfter: LOST, receiveAfter: LOST, getAfter: LOST };
const AFTER_GIVING_UP = {
  cancelled: ['MessagingError', 'MSG_CANCELLED'],
  aborted: ['TimeoutError', undefined],
  late: ['MessagingError', 'MSG_TIMEOUT'],
  lateSend: ['MessagingError', 'MSG_TIMEOUT'],
};

interface Fabric {
  readonly device: string;
  readonly hasCable: boolean;
  readonly skip: string | false;
}

const ucxMissing = !existsSync('/usr/include/ucp/api/ucp.h') && 'needs apt-get install libucx-dev';
const FABRICS: readonly Fabric[] = [
  { device: 'shm', hasCable: false, skip: false },
  { device: 'roce:veth0', hasCable: true, skip: false },
  { device: 'ucx:TLS=sm,self', hasCable: false, skip: ucxMissing },
  { device: 'ucx:TLS=tcp;NET_DEVICES=veth0', hasCable: true, skip: ucxMissing },
];

/** An end that runs, and what it has said. */
class End {
  readonly process: ChildProcess;
  readonly #words: EndWord[] = [];

  constructor(input: EndInput, namespace: string | undefined) {
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    const inside = namespace && { execPath: 'ip', execArgv: ['netns', 'exec', namespace, process.execPath] };
    const program = fileURLToPath(new URL('./failures/end.js', import.meta.url));
    this.process = fork(program, [JSON.stringify(input)], { env, ...inside });
    this.process.on('message', (word: EndWord) => this.#words.push(word));
  }

  hasSaid(kind: string): boolean {
    return this.#words.some((word) => kind in word);
  }

  /** Waits for a word of this kind. */
  async hear<K extends string>(kind: K): Promise<Extract<EndWord, Record<K, unknown>>> {
    for (;;) {
      const found = this.#words.find((word) => kind in word);
      if (found) return found as Extract<EndWord, Record<K, unknown>>;
      const ended = once(this.process, 'exit').then(([code, signal]) => assert.fail(`the end stopped: ${code ?? signal}`));
      await Promise.race([once(this.process, 'message'), ended]);
    }
  }
}

/** Lets two ends begin, breaks something, and returns how the calls of one of them ended. */
async function play(
  device: string,
  network: VethNetwork | undefined,
  breaks: (peer: End, subject: End) => unknown,
  polls = false,
): Promise<{ cancelled: Record<string, Ending>; endings: Record<string, Ending>; state: string }> {
  const peer = new End({ part: 'peer', device, polls }, network?.names[1]);
  const subject = new End({ part: 'subject', device, polls }, network?.names[0]);
  const watchdog = setTimeout(() => end(), LIMIT_MS);
  const end = () => [peer, subject].map(({ process }) => process.kill('SIGKILL'));
  try {
    subject.process.send((await peer.hear('address')).address);
    const { cancelled } = await subject.hear('cancelled');
    await subject.hear('outstanding');
    await breaks(peer, subject);
    return { cancelled, ...(await subject.hear('endings')) };
  } finally {
    clearTimeout(watchdog);
    end();
  }
}

for (const { device, hasCable, skip } of FABRICS) {
  describe(`on ${device}`, { skip, timeout: LIMIT_MS }, () => {
    /** With a network where the fabric needs one. */
    const fabricTest = (sentence: string, body: (network: VethNetwork | undefined) => Promise<void>) =>
      test(sentence, { timeout: LIMIT_MS }, async (context) => {
        const network = hasCable ? VethNetwork.make() : undefined;
        if (typeof network === 'string') return context.skip(network);
        try {
          await body(network);
        } finally {
          network?.remove();
        }
      });

    fabricTest(
      'requests that are given up end as they were given up; what depends on a killed peer is PeerLost',
      async (network) => {
        const { cancelled, endings, state } = await play(device, network, (peer) => peer.process.kill('SIGKILL'));
        assert.deepEqual(cancelled, JSON.parse(JSON.stringify(AFTER_GIVING_UP)));
        assert.deepEqual(endings, AFTER_LOSS);
        assert.equal(state, 'failed');
      },
    );

    for (const polls of [false, true]) {
      const how = polls ? 'a thread that polls' : 'an event loop';
      if (hasCable) {
        fabricTest(`what depends on a far peer that stands still is PeerLost to ${how}`, async (network) => {
          const { endings, state } = await play(device, network, (peer) => peer.process.kill('SIGSTOP'), polls);
          assert.deepEqual(endings, AFTER_LOSS);
          assert.equal(state, 'failed');
        });
      } else {
        fabricTest(`a peer of the same host that stands still is waited for until it dies, by ${how}`, async () => {
          const { endings } = await play(
            device,
            undefined,
            async (peer, subject) => {
              peer.process.kill('SIGSTOP');
              await new Promise((resolve) => setTimeout(resolve, STILL_MS));
              assert.ok(!subject.hasSaid('endings'));
              peer.process.kill('SIGKILL');
            },
            polls,
          );
          assert.deepEqual(endings, AFTER_LOSS);
        });
      }
    }

    if (hasCable) {
      fabricTest('what depends on a peer behind a cut cable is PeerLost', async (network) => {
        const { endings, state } = await play(device, network, () => {
          assert.equal(spawnSync('ip', ['-n', network?.names[1] ?? '', 'link', 'set', 'veth0', 'down']).status, 0);
        });
        assert.deepEqual(endings, AFTER_LOSS);
        assert.equal(state, 'failed');
      });
    }
  });
}
