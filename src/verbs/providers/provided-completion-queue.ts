/** What every provider's completion queue does the same way: causes, who uses it, and its end. */

import { CompletionQueue, type CqInit } from '../completion-queue.js';
import { VerbsError } from '../errors.js';
import type { Cause } from '../status.js';
import { CauseLog } from './cause-log.js';

/** What it needs of the device. */
interface QueueHost {
  hold(on: boolean): void;
  forgetCq(cq: CompletionQueue): void;
}

export abstract class ProvidedCompletionQueue extends CompletionQueue {
  abstract readonly device: QueueHost;
  /** Queue pairs that use it, once per direction. */
  users = 0;
  protected isClosed = false;
  protected readonly causes: CauseLog;

  constructor(init: CqInit, causes = new CauseLog()) {
    super(init);
    this.causes = causes;
  }

  /** Wakes whoever waits: there is something, or the queue failed or ended. */
  protected abstract announce(): void;
  /** Takes the queue from whoever fills it. */
  protected destroy(): void {}

  cause(causeId: number): Cause | undefined {
    return this.causes.find(causeId);
  }

  protected hold(on: boolean): void {
    this.device.hold(on);
  }

  /** Throws VERBS_CLOSED. */
  protected assertOpen(): void {
    if (this.isClosed) throw new VerbsError('VERBS_CLOSED', 'the completion queue is closed');
  }

  /** Throws VERBS_ILLEGAL: completions are lost. */
  protected refuseOverrun(): never {
    const words = `the completion queue of ${this.depth} entries overran (event CQ_ERR): close it and make a deeper one`;
    throw new VerbsError('VERBS_ILLEGAL', words);
  }

  close(): void {
    if (this.isClosed) return;
    if (this.users > 0) {
      throw new VerbsError('VERBS_BUSY', `${this.users} queue pairs use this completion queue: close them first`);
    }
    this.destroy();
    this.shut();
  }

  /** Closes without asking: the device is going. */
  shut(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.device.forgetCq(this);
    this.announce();
  }
}
