/**
 * How ranks of one host find their coordinator when the launcher names no address: rank 0 announces the store's port and secret under the name of the
 * job to processes of the same user. Nothing of it has a file; the secret is made anew for the job and never leaves the two processes.
 */

import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { announce, inquire, type Withdraw } from '../native/announcement.js';
import { unlessAborted } from './abortable.js';
import { LaunchError } from './errors.js';

const KIND = 'job';
/** For one try, ms. */
const ANSWER_MS = 2000;

/** What rank 0 hands out. */
export interface Invitation {
  readonly port: number;
  readonly secret: string;
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
export function openMeeting(job: string, invitation: Invitation): Withdraw {
  const close = announce(KIND, job, JSON.stringify(invitation));
  if (close) return close;
  throw new LaunchError(
    'LAUNCH_DUPLICATE_RANK',
    `another process of this user is rank 0 of the same job (${job}): two processes were told that they are rank 0, or the rank 0 of an ` +
      'earlier start still runs. Give every process its own rank, or end the other one.',
    { rank: 0 },
  );
}

/** The other ranks' side. @throws LAUNCH_TIMEOUT when rank 0 does not come, the signal's reason. */
export async function attendMeeting(job: string, timeoutMs: number, signal: AbortSignal | undefined): Promise<Invitation> {
  const deadline = performance.now() + timeoutMs;
  for (let delay = 10; ; delay = Math.min(delay * 1.5, 200)) {
    try {
      return JSON.parse(await unlessAborted(inquire(KIND, job, ANSWER_MS), signal)) as Invitation;
    } catch (error) {
      signal?.throwIfAborted();
      if (performance.now() + delay > deadline) {
        throw new LaunchError(
          'LAUNCH_TIMEOUT',
          `rank 0 of this job (${job}) never arrived within ${timeoutMs} ms. Check that it was started on this host by the same user and that it calls init(); ` +
            'where ranks are in separate network namespaces (containers), set VERBENA_STORE and VERBENA_SECRET.',
          { cause: error, rank: 0 },
        );
      }
      await unlessAborted(pause(delay), signal);
    }
  }
}
