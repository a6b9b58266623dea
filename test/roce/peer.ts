/**
 * A process with a RoCE device that a test talks to: it offers a region and a queue pair, joins, and can block its thread until the peer
 * writes the release word by RDMA. It may run in another network namespace.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { QpAddress, RemoteRegion } from '../../src/verbs/index.js';

export interface Offer {
  readonly address: QpAddress;
  readonly remote: RemoteRegion;
}

/** What the release of a blocked peer tells. */
export interface Released {
  readonly counter: string;
  readonly swapped: string;
  readonly sum: number;
}

export class Peer {
  private readonly child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.child = child;
  }

  /** @param device as `openDevice` takes it. @param network a namespace of `ip netns` to run in, or nothing. */
  static async start(device: string, memory: 'arena' | 'private', network?: string): Promise<{ peer: Peer; offer: Offer }> {
    const file = fileURLToPath(new URL('./peer-process.js', import.meta.url));
    const command = [...(network === undefined ? [] : ['ip', 'netns', 'exec', network]), process.execPath, file, device, memory];
    const child = spawn(command[0], command.slice(1), { stdio: ['ignore', 'inherit', 'inherit', 'ipc'], timeout: 120_000 });
    const peer = new Peer(child);
    return { peer, offer: await peer.hear<Offer>() };
  }

  say(message: unknown): void {
    this.child.send(message as object);
  }

  async hear<T>(): Promise<T> {
    const ended = once(this.child, 'exit').then(([code]) => {
      throw new Error(`the peer ended with ${code}`);
    });
    const [message] = await Promise.race([once(this.child, 'message'), ended]);
    return message as T;
  }

  async end(): Promise<void> {
    if (this.child.exitCode !== null) return;
    const exited = once(this.child, 'exit');
    this.child.disconnect();
    await exited;
  }
}
