/** The waiting that all providers share, over a queue that is an array: nothing is lost between looking and sleeping. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CompletionChannel, CompletionQueue, type CqInit } from './completion-queue.js';
import { VerbsError } from './errors.js';
import type { Cause } from './status.js';
import type { WorkCompletions } from './work-completions.js';

/** A provider as small as can be: completions are ids in an array. */
class ArrayQueue extends CompletionQueue {
  readonly ids: number[] = [];
  armed = false;
  holds = 0;
  arms = 0;
  closed = false;
  /** Called when the queue is armed: the moment in which a completion could be lost. */
  whenArmed: () => void = () => {};

  push(id: number): void {
    this.ids.push(id);
    if (!this.armed) return;
    this.armed = false;
    this.signal();
  }

  poll(wcs: WorkCompletions): number {
    if (this.closed) throw new VerbsError('VERBS_CLOSED', 'the queue is closed');
    let n = 0;
    while (n < wcs.capacity && this.ids.length > 0) {
      wcs.id[n] = this.ids.shift() ?? 0;
      wcs.causeId[n] = wcs.id[n] === 13 ? 13 : 0;
      n++;
    }
    return n;
  }

  requestNotify(): void {
    this.armed = true;
    this.arms++;
    this.whenArmed();
  }

  isReady(): boolean {
    if (this.closed) throw new VerbsError('VERBS_CLOSED', 'the queue is closed');
    return this.ids.length > 0;
  }

  moderate(): void {}

  cause(causeId: number): Cause | undefined {
    return { status: 'GENERAL_ERR', qpNum: 1, wrId: causeId, opcode: 'SEND', peer: 'unknown', words: 'thirteen' };
  }

  protected hold(on: boolean): void {
    this.holds += on ? 1 : -1;
    assert.ok(this.holds >= 0 || !on);
  }

  close(): void {
    this.closed = true;
    this.signal();
  }
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

describe('waiting on a completion queue', () => {
  it('next takes what is there without arming', async () => {
    const queue = new ArrayQueue({ mode: 'event' });
    queue.push(4);
    assert.equal((await queue.next()).id, 4);
    assert.equal(queue.arms, 0);
  });

  for (const mode of ['event', 'adaptive'] as const) {
    it(`a completion between arming and sleeping is not lost (${mode})`, async () => {
      const queue = new ArrayQueue({ mode, spinUs: 0 });
      queue.whenArmed = () => queue.ids.push(5);
      assert.equal((await queue.next({ timeoutMs: 1000 })).id, 5);
    });

    it(`a completion while asleep wakes every waiter, and each takes one (${mode})`, async () => {
      const queue = new ArrayQueue({ mode, spinUs: 0 });
      const waiting = Promise.all([queue.next(), queue.next()]);
      await turn();
      assert.equal(queue.armed, true);
      queue.push(1);
      await turn();
      queue.push(2);
      assert.deepEqual((await waiting).map((completion) => completion.id).sort(), [1, 2]);
    });
  }

  it('poll mode never arms', async () => {
    const queue = new ArrayQueue({ mode: 'poll', spinUs: 0 });
    const waiting = queue.next();
    await turn();
    queue.push(1);
    assert.equal((await waiting).id, 1);
    assert.equal(queue.arms, 0);
  });

  it('ready takes nothing', async () => {
    const queue = new ArrayQueue({ mode: 'event' });
    queue.push(1);
    await queue.ready();
    await queue.ready();
    assert.deepEqual(queue.ids, [1]);
  });

  it('an error carries its cause', async () => {
    const queue = new ArrayQueue({});
    queue.push(13);
    assert.equal((await queue.next()).cause?.words, 'thirteen');
  });

  it('time, signal and close end the wait, and nobody is left waiting', async () => {
    const queue = new ArrayQueue({ mode: 'event' });
    await assert.rejects(queue.next({ timeoutMs: 5 }), { code: 'VERBS_TIMEOUT' });
    const abort = new AbortController();
    const aborted = assert.rejects(queue.next({ signal: abort.signal }), /enough/);
    await turn();
    abort.abort(new Error('enough'));
    await aborted;
    const closed = assert.rejects(queue.next(), { code: 'VERBS_CLOSED' });
    await turn();
    queue.close();
    await closed;
  });

  it('the process is held only while somebody sleeps', async () => {
    const queue = new ArrayQueue({ mode: 'event' });
    const waiting = queue.next();
    await turn();
    assert.equal(queue.holds, 1);
    queue.push(1);
    await waiting;
    assert.ok(queue.holds <= 0);
  });
});

describe('options of a completion queue', () => {
  const bad: CqInit[] = [{ depth: 0 }, { depth: 2 ** 20 + 1 }, { spinUs: -1 }, { spinUs: 10_001 }, { mode: 'busy' as 'poll' }];
  for (const init of bad) {
    it(`refuses ${JSON.stringify(init)}`, () => {
      assert.throws(() => new ArrayQueue(init), { code: 'VERBS_INVALID' });
    });
  }

  it('has defaults', () => {
    const queue = new ArrayQueue({});
    assert.equal(queue.depth, 256);
    assert.equal(queue.mode, 'adaptive');
  });
});

describe('a completion channel', () => {
  it('names each queue that raised an event once, in order', async () => {
    const channel = new CompletionChannel();
    const [left, right] = [new ArrayQueue({ channel }), new ArrayQueue({ channel })];
    for (const queue of [right, left, right]) {
      queue.requestNotify();
      queue.push(1);
    }
    assert.equal(await channel.next(), right);
    assert.equal(await channel.next(), left);
    await assert.rejects(channel.next({ timeoutMs: 5 }), { code: 'VERBS_TIMEOUT' });
  });

  it('gives two waiters an event each', async () => {
    const channel = new CompletionChannel();
    const [left, right] = [new ArrayQueue({ channel }), new ArrayQueue({ channel })];
    const waiting = Promise.all([channel.next({ timeoutMs: 1000 }), channel.next({ timeoutMs: 1000 })]);
    for (const queue of [left, right]) {
      queue.requestNotify();
      queue.push(1);
      await turn();
    }
    assert.deepEqual(new Set(await waiting), new Set([left, right]));
  });
});
