/** The store for a process that was started beside the ranks of a job (`RunningJob.newcomer`), and is none itself. */

import { storeOf } from '../environment.js';
import { LaunchError } from '../errors.js';
import { takeHandedOver } from '../handed-over.js';
import { packageVersion } from '../version.js';
import { TcpStore } from './tcp-store.js';

/** @throws LAUNCH_ENVIRONMENT in a process that no job started, and what TcpStore.connect throws. */
export async function storeOfJob(): Promise<TcpStore> {
  const [at, handed] = [storeOf(process.env), takeHandedOver()];
  if (at === undefined || handed === undefined) throw new LaunchError('LAUNCH_ENVIRONMENT', 'no job started this process');
  return TcpStore.connect({ ...at, ...handed, version: packageVersion() });
}
