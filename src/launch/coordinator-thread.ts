/**
 * The coordinator in a thread of rank 0, for launchers that know nothing of Verbena. A thread of its own, so that the others hear of deaths and use the store
 * while rank 0 computes.
 *
 * To it: `finish` (wait until the others have gone, then end). From it: `{ port, secret }` or `{ error }`, then `{ finished }`.
 */

import { writeSync } from 'node:fs';
import { isMainThread, parentPort, workerData } from 'node:worker_threads';
import { Coordinator } from './coordinator.js';
import { LaunchError, type LaunchErrorCode } from './errors.js';
import { openMeeting } from './meeting.js';
import { makeSecret } from './store/authentication.js';

export interface CoordinatorThreadInput {
  readonly size: number;
  readonly version: string;
  readonly address: string;
  readonly port: number;
  /** undefined: a fresh one, handed out in the meeting. */
  readonly secret: string | undefined;
  /** Ranks of this host meet under this name; undefined: no meeting. */
  readonly job: string | undefined;
  readonly machine: string;
  readonly heartbeatMs: number;
  readonly silenceMs: number;
  /** How long rank 0 waits for the others at the end, ms. */
  readonly finishMs: number;
}

export type CoordinatorThreadMessage =
  | { readonly port: number; readonly secret: string }
  | { readonly error: { readonly code: LaunchErrorCode | undefined; readonly message: string } }
  | { readonly finished: true };

/** From this thread: console and process.stderr of a worker go through the main thread, which may be blocked. */
function log(line: string): void {
  try {
    writeSync(2, `verbena: ${line}\n`);
  } catch {
    // stderr is closed or full: a report is not worth the job
  }
}

async function serve(input: CoordinatorThreadInput): Promise<void> {
  const secret = input.secret ?? makeSecret();
  const coordinator = await Coordinator.listen({ ...input, secret, log });
  const closeMeeting = input.job === undefined ? undefined : openMeeting(input.job, { port: coordinator.port, secret });
  parentPort?.postMessage({ port: coordinator.port, secret } satisfies CoordinatorThreadMessage);
  parentPort?.once('message', async () => {
    await coordinator.quiet(0, input.finishMs);
    closeMeeting?.();
    coordinator.close();
    parentPort?.postMessage({ finished: true } satisfies CoordinatorThreadMessage);
    parentPort?.close();
  });
}

if (!isMainThread && parentPort) {
  serve(workerData as CoordinatorThreadInput).catch((error: unknown) => {
    const code = LaunchError.is(error) ? error.code : undefined;
    parentPort?.postMessage({ error: { code, message: (error as Error).message } } satisfies CoordinatorThreadMessage);
  });
}
