/** Errors of the operating system, as the providers throw them. */

import { getSystemErrorName } from 'node:util';
import { VerbsError, type VerbsErrorCode } from './errors.js';

/** A VerbsError for an errno of the addon, of either sign. */
export function systemError(errno: number, what: string, code: VerbsErrorCode = 'VERBS_SYSTEM'): VerbsError {
  const name = getSystemErrorName(-Math.abs(errno));
  const advice = name === 'EMFILE' ? ': this process may not open more files: close some, or raise ulimit -n' : '';
  return new VerbsError(code, `${what}: ${name}${advice}`);
}
