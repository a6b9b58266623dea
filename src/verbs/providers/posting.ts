/** In which states a queue pair takes requests, and of which type it must be: the same on every provider. */

import { VerbsError } from '../errors.js';
import type { QpType } from '../opcode.js';
import type { QpState } from '../qp-state.js';

/** @throws VERBS_ILLEGAL where sends cannot be posted @param index of the request in its chain */
export function assertTakesSends(type: QpType, state: QpState, index: number): void {
  if (type === 'DCT') {
    throw new VerbsError('VERBS_ILLEGAL', 'a DC target takes no sends: use a DC initiator', { badIndex: index });
  }
  if (state === 'RESET' || state === 'INIT' || state === 'RTR') {
    throw new VerbsError('VERBS_ILLEGAL', `sends are posted in RTS, not in ${state}: connect the queue pair first`, {
      badIndex: index,
    });
  }
}

/** @throws VERBS_ILLEGAL where receives cannot be posted @param isShared it receives through a shared receive queue @param badIndex in its chain */
export function assertTakesReceives(type: QpType, state: QpState, isShared: boolean, badIndex = 0): void {
  if (isShared) {
    throw new VerbsError('VERBS_ILLEGAL', 'the queue pair receives through its shared receive queue: post there', { badIndex });
  }
  if (type === 'DCI') throw new VerbsError('VERBS_ILLEGAL', 'a DC initiator only sends: use a DC target', { badIndex });
  if (state === 'RESET') {
    const words = 'receives are posted from INIT on, not in RESET: post them after connect() or accept()';
    throw new VerbsError('VERBS_ILLEGAL', words, { badIndex });
  }
}
