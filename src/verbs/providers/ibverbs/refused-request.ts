/** What a device says of a request that it does not take. */

import { constants } from 'node:os';
import { VerbsError } from '../../errors.js';
import { systemError } from '../../system-error.js';

const { ENOMEM, EIO, ENODEV } = constants.errno;

/** Throws VERBS_QUEUE_FULL, VERBS_NO_DEVICE or VERBS_INVALID. `full` says what a full queue holds. */
export function refuseRequest(errno: number, badIndex: number, full: string): never {
  if (errno === ENOMEM) throw new VerbsError('VERBS_QUEUE_FULL', `${full}: wait for a completion`, { badIndex });
  const isGone = errno === EIO || errno === ENODEV;
  const words = systemError(errno, isGone ? 'the device failed or was taken out' : 'the device refuses it').message;
  throw new VerbsError(isGone ? 'VERBS_NO_DEVICE' : 'VERBS_INVALID', `work request ${badIndex}: ${words}`, { badIndex });
}
