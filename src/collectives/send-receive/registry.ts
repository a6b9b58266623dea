/** The algorithms of send-receive. Ties in selection go to the earlier in the list. */

import type { Algorithm } from '../algorithm.js';
import { directSendReceive } from './direct.js';

export const sendReceiveAlgorithms: readonly Algorithm[] = [directSendReceive];
