/**
 * Names of listeners on this host, so that a program connects by name without knowing address and port: each is an announcement, which ends with its
 * process. Peers on other hosts, and in other network namespaces, are named with their address.
 */

import { announce, inquire, type Withdraw } from '../../../native/announcement.js';
import { VerbsError } from '../../errors.js';
import type { AddressVector } from '../../qp-state.js';

export class Directory {
  private readonly kind: string;
  private readonly own = new Map<string, Withdraw>();

  /** @param kind names of different kinds do not meet: the provider */
  constructor(kind: string) {
    this.kind = kind;
  }

  /** Enters a name. Throws VERBS_BUSY when a process of this host has it. */
  add(name: string, av: AddressVector): void {
    const withdraw = announce(this.kind, name, JSON.stringify(av));
    if (withdraw === undefined) throw new VerbsError('VERBS_BUSY', `somebody listens under '${name}' already`);
    this.own.set(name, withdraw);
  }

  /** Where a name listens. Rejects with VERBS_NO_DEVICE when nobody does, VERBS_TIMEOUT when the listener's thread is busy for longer. */
  async find(name: string, timeoutMs: number): Promise<AddressVector> {
    try {
      return JSON.parse(await inquire(this.kind, name, timeoutMs)) as AddressVector;
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === 'ETIMEDOUT') {
        throw new VerbsError('VERBS_TIMEOUT', `'${name}' did not answer within ${timeoutMs} ms`, { cause });
      }
      throw new VerbsError(
        'VERBS_NO_DEVICE',
        `nobody on this host listens under '${name}': start the listener first, or give its listener.target`,
        { cause },
      );
    }
  }

  remove(name: string): void {
    this.own.get(name)?.();
    this.own.delete(name);
  }
}
