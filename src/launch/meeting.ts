/**
 * How ranks of one host find their coordinator when the launcher names no address: a unix socket in the abstract namespace, named after the job.
 *
 * Rank 0 listens there and hands the store's port and secret to processes of the same user (the kernel says who is at the other end). An abstract
 * name has no file, so nothing is left behind; the secret is made anew for the job and never leaves the two processes.
 */

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { loadAddon } from '../native/load.js';
import { LaunchError } from './errors.js';

/** What rank 0 hands out. */
export interface Invitation {
  readonly port: number;
  readonly secret: string;
}

function pathOf(job: string): string {
  const digest = createHash('sha256').update(job).digest('hex').slice(0, 32);
  return `\0verbena-${process.getuid?.() ?? 0}-job-${digest}`;
}

function peerOf(socket: Socket): number {
  const { fd } = (socket as unknown as { _handle?: { fd?: number } })._handle ?? {};
  return fd === undefined || fd < 0 ? -1 : loadAddon().peerUid(fd);
}

/**
 * Where the launcher names no job: the nearest ancestor without the variable that carries the rank is the launcher, and its pid and start time
 * name the job.
 */
export function jobOfAncestor(rankVariable: string, launcher: string): string {
  let pid = process.ppid;
  for (let depth = 0; depth < 32 && pid > 1; depth++) {
    let environment: string;
    try {
      environment = readFileSync(`/proc/${pid}/environ`, 'latin1');
    } catch {
      environment = ''; // not ours to read: then it is no rank of ours either
    }
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (!environment.split('\0').some((entry) => entry.startsWith(`${rankVariable}=`))) return `${launcher}-${pid}-${fields[19]}`;
    pid = Number(fields[1]);
  }
  return `${launcher}-${pid}`;
}

/** Rank 0's side: hands the invitation to whoever of this user asks. @throws LAUNCH_DUPLICATE_RANK when somebody does so already. */
export async function openMeeting(job: string, invitation: Invitation): Promise<Server> {
  const uid = process.getuid?.() ?? 0;
  const server = createServer((socket) => {
    socket.on('error', () => {});
    if (peerOf(socket) === uid) socket.end(`${JSON.stringify(invitation)}\n`);
    else socket.destroy();
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      reject(
        error.code === 'EADDRINUSE'
          ? new LaunchError(
              'LAUNCH_DUPLICATE_RANK',
              `another process of this user is rank 0 of the same job (${job}): two processes were told that they are rank 0, or the rank 0 of an ` +
                'earlier start still runs. Give every process its own rank, or end the other one.',
              { rank: 0 },
            )
          : error,
      );
    });
    server.listen(pathOf(job), resolve);
  });
  return server;
}

function ask(path: string): Promise<Invitation> {
  return new Promise((resolve, reject) => {
    const socket = connect(path);
    let text = '';
    socket.once('connect', () => {
      if (peerOf(socket) !== (process.getuid?.() ?? 0)) socket.destroy(new Error('the other end belongs to another user'));
    });
    socket.on('data', (chunk) => {
      text += chunk;
    });
    socket.on('error', reject);
    socket.on('close', () => {
      if (text.endsWith('\n')) resolve(JSON.parse(text) as Invitation);
      else reject(new Error('the meeting ended early'));
    });
  });
}

/** The other ranks' side. @throws LAUNCH_TIMEOUT when rank 0 does not come. */
export async function attendMeeting(job: string, timeoutMs: number): Promise<Invitation> {
  const deadline = performance.now() + timeoutMs;
  for (let delay = 10; ; delay = Math.min(delay * 1.5, 200)) {
    try {
      return await ask(pathOf(job));
    } catch (error) {
      if (performance.now() + delay > deadline) {
        throw new LaunchError(
          'LAUNCH_TIMEOUT',
          `rank 0 of this job (${job}) never arrived within ${timeoutMs} ms. Check that it was started on this host by the same user and that it calls init(); ` +
            'where ranks are in separate network namespaces (containers), set VERBENA_STORE and VERBENA_SECRET.',
          { cause: error, rank: 0 },
        );
      }
      await new Promise((resolve) => setTimeout(resolve, delay));
    }
  }
}
