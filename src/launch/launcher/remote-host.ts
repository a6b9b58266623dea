/**
 * Ranks on another host: one ssh connection, and at its other end the host agent (host-agent.ts), which starts the ranks there as this host starts its own.
 *
 *   to the agent     { start: spec }   { signal, rank }   { stdin, rank }         from it     { version }   { started, pid }   { line }   { exit }
 *
 * One JSON document a line. The job's secret goes this way too, so it is on no command line. When the connection ends, from whichever side, the agent ends
 * its ranks: a launcher that was killed leaves nothing behind on other hosts either.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { LaunchError } from '../errors.js';
import { packageVersion } from '../version.js';
import { LineSplitter } from './line-splitter.js';
import type { RankExit, RankHandle, RankSpec, TakeLine } from './rank-process.js';

export type ToAgent =
  | { readonly type: 'start'; readonly spec: RankSpec }
  | { readonly type: 'signal'; readonly rank: number; readonly signal: NodeJS.Signals }
  | { readonly type: 'stdin'; readonly rank: number; readonly bytes: string | null };

export type FromAgent =
  | { readonly type: 'version'; readonly version: string }
  | { readonly type: 'started'; readonly rank: number; readonly pid: number }
  | { readonly type: 'failed'; readonly rank: number; readonly message: string }
  | { readonly type: 'line'; readonly rank: number; readonly stream: 'stdout' | 'stderr'; readonly line: string }
  | { readonly type: 'exit'; readonly rank: number; readonly exit: RankExit };

export interface RemoteOptions {
  /** The ssh command and its options. Default: VERBENA_SSH, or ssh. */
  readonly ssh: readonly string[];
  /** What starts the agent there. Default: this node and this package, at the same paths. */
  readonly command: readonly string[];
}

/** ssh that asks nothing and notices a dead connection within 15 s; and the agent at the same path as here. */
export function remoteOptions(env: NodeJS.ProcessEnv): RemoteOptions {
  const program = fileURLToPath(new URL('../../../../bin/verbena.js', import.meta.url));
  const words = (text: string | undefined) => text?.split(/\s+/).filter((word) => word !== '');
  return {
    ssh: words(env['VERBENA_SSH']) ?? ['ssh'],
    command: words(env['VERBENA_REMOTE_COMMAND']) ?? [process.execPath, program],
  };
}

const SSH_OPTIONS = [
  '-o',
  'BatchMode=yes',
  '-o',
  'ConnectTimeout=10',
  '-o',
  'ServerAliveInterval=5',
  '-o',
  'ServerAliveCountMax=3',
];
/** A host that does not answer for so long cannot start ranks, ms. */
const HELLO_MS = 30_000;

interface RemoteRank {
  started(pid: number): void;
  failed(error: Error): void;
  ended(exit: RankExit): void;
}

export class RemoteHost {
  readonly name: string;
  readonly #child: ChildProcess;
  readonly #take: TakeLine;
  readonly #ranks = new Map<number, RemoteRank>();
  readonly #greeting: Promise<void>;
  #errors = '';

  constructor(name: string, options: RemoteOptions, take: TakeLine) {
    this.name = name;
    this.#take = take;
    const quoted = [...options.command, 'host-agent'].map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ');
    const [command, ...args] = [...options.ssh, ...SSH_OPTIONS, '--', name, quoted];
    // A group of its own: Ctrl-C of a terminal must not cut the connection before the ranks have had their grace time.
    this.#child = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'], detached: true });
    this.#child.stdin?.on('error', () => {});
    this.#child.stderr?.on('data', (chunk) => {
      this.#errors = (this.#errors + chunk).slice(-2000);
    });
    this.#greeting = this.#greet();
    this.#greeting.catch(() => {}); // told to whoever starts a rank
  }

  #greet(): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => fail(`no answer within ${HELLO_MS} ms`), HELLO_MS);
      const fail = (why: string) => {
        clearTimeout(timer);
        this.#child.kill();
        reject(this.#error(why));
      };
      const lines = new LineSplitter((line) => {
        const message = parse(line);
        if (message?.type === 'version') {
          clearTimeout(timer);
          if (message.version === packageVersion()) resolve();
          else fail(`it has Verbena ${message.version} and this host ${packageVersion()}: install the same version on both`);
        } else if (message) this.#hear(message);
      });
      this.#child.stdout?.on('data', (chunk: Buffer) => lines.push(chunk));
      this.#child.on('error', (error) => fail(error.message));
      this.#child.on('close', (code, signal) => {
        const why = `ssh ended with ${code ?? signal}`;
        fail(why);
        const exit = {
          code: code === 0 ? 255 : (code ?? 255),
          signal: null,
          why: `was lost: ${why}, its host or the network is gone`,
        };
        for (const rank of this.#ranks.values()) {
          rank.failed(this.#error(why));
          rank.ended(exit);
        }
      });
    });
  }

  #error(why: string): LaunchError {
    const said = this.#errors.trim();
    return new LaunchError(
      'LAUNCH_HOST',
      `host ${this.name} cannot start ranks: ${why}${said ? ` (${said.split('\n').slice(-3).join(' / ')})` : ''}. Check that \`ssh ${this.name}\` works without a ` +
        'password, and that node and verbena are there at the same paths as here; otherwise set VERBENA_REMOTE_COMMAND to what starts verbena there, and ' +
        'VERBENA_SSH to the ssh command with its options.',
    );
  }

  #hear(message: FromAgent): void {
    if (message.type === 'line') this.#take(message.rank, message.stream, message.line);
    else if (message.type === 'started') this.#ranks.get(message.rank)?.started(message.pid);
    else if (message.type === 'failed')
      this.#ranks.get(message.rank)?.failed(new LaunchError('LAUNCH_HOST', `${this.name}: ${message.message}`));
    else if (message.type === 'exit') {
      const rank = this.#ranks.get(message.rank);
      this.#ranks.delete(message.rank);
      rank?.ended(message.exit);
    }
  }

  #send(message: ToAgent): void {
    this.#child.stdin?.write(`${JSON.stringify(message)}\n`);
  }

  /** @throws LAUNCH_HOST */
  async start(spec: RankSpec): Promise<RankHandle> {
    await this.#greeting;
    const { rank } = spec;
    let ended: RemoteRank['ended'] = () => {};
    const exited = new Promise<RankExit>((resolve) => {
      ended = resolve;
    });
    const pid = await new Promise<number>((started, failed) => {
      this.#ranks.set(rank, { started, failed, ended });
      this.#send({ type: 'start', spec });
    });
    const stdin = new Writable({
      write: (chunk: Buffer, _, done) => {
        this.#send({ type: 'stdin', rank, bytes: chunk.toString('base64') });
        done();
      },
      final: (done) => {
        this.#send({ type: 'stdin', rank, bytes: null });
        done();
      },
    });
    return {
      rank,
      pid,
      host: this.name,
      stdin: spec.stdin ? stdin : null,
      exited,
      signal: (signal) => this.#send({ type: 'signal', rank, signal }),
    };
  }

  /** Ends the connection, and with it whatever still runs there. */
  close(): void {
    this.#child.stdin?.end();
  }
}

function parse(line: string): FromAgent | undefined {
  try {
    return JSON.parse(line) as FromAgent;
  } catch {
    return undefined; // the greeting of a login shell
  }
}
