/**
 * Message systems that a Node program would use instead: TCP and unix sockets of `node:net`, MessagePort between worker threads, ZeroMQ
 * over ipc, gRPC. They know only messages, so a WRITE is compared with a message of the same size.
 */

import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { CpuPair } from '../../../cpus.js';
import { type BenchCase, LATENCY_BATCH, SIGNAL_EVERY } from '../case.js';
import { ChildProgram } from '../child-program.js';
import { Pace } from '../pace.js';
import type { Missing, Session, SessionDetails, Subject } from '../subject.js';

const PROGRAM = new URL('./message-process.js', import.meta.url);
/** Peers from npm are no dependency of the product: they live beside this file, put there by `npm run setup:peers`. */
const PACKAGES = fileURLToPath(new URL('../../../../../../bench/peers/package.json', import.meta.url));

type Kind = 'tcp' | 'unix' | 'zeromq' | 'grpc' | 'messageport';

/** Those that come from npm. */
const PACKAGE: Partial<Readonly<Record<Kind, string>>> = { zeromq: 'zeromq', grpc: '@grpc/grpc-js' };

const WHAT: Readonly<Record<Kind, string>> = {
  tcp: 'node:net over TCP on loopback, no delay',
  unix: 'node:net over a unix socket',
  zeromq: 'npm zeromq, PAIR sockets over ipc',
  grpc: 'npm @grpc/grpc-js, one call that streams both ways over TCP on loopback',
  messageport: 'worker_threads, postMessage of a Uint8Array',
};

class MessageSession implements Session {
  readonly #kind: Kind;
  readonly #initiator: ChildProgram;
  readonly #all: readonly ChildProgram[];
  readonly #folder: string;
  readonly #pace: Pace;

  constructor(kind: Kind, bench: BenchCase, all: readonly ChildProgram[], folder: string) {
    this.#kind = kind;
    this.#all = all;
    this.#initiator = all[0];
    this.#folder = folder;
    this.#pace = bench.metric === 'latency' ? new Pace(LATENCY_BATCH, 20) : new Pace(SIGNAL_EVERY * 32, SIGNAL_EVERY);
  }

  #run(durationMs: number): Promise<number[]> {
    return this.#pace.run(durationMs, (batch, batches) => this.#initiator.request<number[]>('run', { batch, batches }));
  }

  async warmUp(durationMs: number): Promise<void> {
    await this.#run(durationMs);
  }

  round(durationMs: number): Promise<readonly number[]> {
    return this.#run(durationMs);
  }

  async verify(): Promise<void> {
    if (!(await this.#initiator.request<boolean>('check'))) throw new Error(`${this.#kind} delivered a wrong payload`);
  }

  describe(): SessionDetails {
    return { what: WHAT[this.#kind] };
  }

  async close(): Promise<void> {
    await Promise.all(this.#all.map((child) => child.close()));
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

async function missingPackage(name: string): Promise<Missing | undefined> {
  const missing = { reason: `the npm package ${name} is not installed for benchmarks`, install: 'npm run setup:peers' };
  if (!existsSync(PACKAGES)) return missing;
  try {
    createRequire(PACKAGES).resolve(name);
    return undefined;
  } catch {
    return missing;
  }
}

function messageSubject(kind: Kind): Subject {
  return {
    who: kind,
    unfit: (bench) =>
      bench.op === 'send' || bench.op === 'write' ? undefined : `${kind} has messages only, nothing like ${bench.op}`,
    missing: async () => {
      const name = PACKAGE[kind];
      return name === undefined ? undefined : missingPackage(name);
    },
    async start(bench: BenchCase, cpus: CpuPair, signal: AbortSignal): Promise<Session> {
      const folder = mkdtempSync(join(tmpdir(), 'verbena-bench-'));
      const options = { kind, bench, path: join(folder, 'socket'), packages: PACKAGES };
      // Two threads of one process cannot be pinned apart from here: the process gets both CPUs.
      const initiator = new ChildProgram(PROGRAM, { cpus: kind === 'messageport' ? cpus : [cpus[1]], signal });
      const all = [initiator];
      const session = new MessageSession(kind, bench, all, folder);
      try {
        let address: string | number = '';
        if (kind !== 'messageport') {
          const responder = new ChildProgram(PROGRAM, { cpus: [cpus[0]], signal });
          all.push(responder);
          address = await responder.request<string | number>('listen', options);
        }
        await initiator.request('join', { ...options, address });
        return session;
      } catch (error) {
        await session.close();
        throw error;
      }
    },
  };
}

export const tcp = messageSubject('tcp');
export const unix = messageSubject('unix');
export const zeromq = messageSubject('zeromq');
export const grpc = messageSubject('grpc');
export const messageport = messageSubject('messageport');
