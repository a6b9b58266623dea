/**
 * An address handle: where a UD or DC request goes. Made once per peer by `pd.createAh`, used by many requests.
 */

import type { AddressVector } from './qp-state.js';

export interface AddressHandle {
  readonly av: AddressVector;
  /** Releases what the handle holds (a mapping, a route). Requests that still name it fail. */
  close(): void;
  [Symbol.dispose](): void;
}
