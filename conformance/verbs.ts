/**
 * The conformance suite of the verbs layer: what every provider promises, as tests of node:test.
 *
 * A provider is a provider when it passes this suite. It is a function of a factory that opens devices; the suite asks each device what
 * it can do (`device.capabilities`) and skips, with the reason, what it cannot. Nothing here knows how a provider works.
 *
 * ```ts
 * import { openDevice } from 'verbena/verbs';
 * import { verbsConformance } from 'verbena/conformance/verbs';
 *
 * verbsConformance({ name: 'shm', open: (options) => openDevice('shm', options) });
 * ```
 */

import { describe, it } from 'node:test';
import { atomics } from './verbs/atomics.js';
import { completions } from './verbs/completions.js';
import { connections } from './verbs/connections.js';
import { datagrams } from './verbs/datagrams.js';
import { dynamicConnections } from './verbs/dynamic-connections.js';
import { events } from './verbs/events.js';
import type { VerbsFactory } from './verbs/factory.js';
import { legality } from './verbs/legality.js';
import { lifeCycle } from './verbs/life-cycle.js';
import { memory } from './verbs/memory.js';
import { objects } from './verbs/objects.js';
import { ordering } from './verbs/ordering.js';
import { preparedRequests } from './verbs/prepared-requests.js';
import { queues } from './verbs/queues.js';
import { sharedReceiveQueues } from './verbs/shared-receive-queues.js';
import { type Chapter, registerChapter, unknownSkips } from './verbs/stage.js';
import { statuses } from './verbs/statuses.js';
import { transfers } from './verbs/transfers.js';
import { unreliable } from './verbs/unreliable.js';

export type { VerbsFactory } from './verbs/factory.js';

const CHAPTERS: readonly Chapter[] = [
  objects,
  lifeCycle,
  legality,
  connections,
  transfers,
  memory,
  atomics,
  ordering,
  queues,
  preparedRequests,
  completions,
  sharedReceiveQueues,
  datagrams,
  unreliable,
  dynamicConnections,
  statuses,
  events,
];

/** Registers the whole suite for one provider. Call it at the top of a test file. */
export function verbsConformance(factory: VerbsFactory): void {
  describe(`verbs conformance: ${factory.name}`, () => {
    const names = CHAPTERS.flatMap((chapter) => registerChapter(factory, chapter));
    it('every skip of the factory names a test that exists', () => {
      const unknown = unknownSkips(factory, names);
      if (unknown.length > 0) throw new Error(`no such test: ${unknown.join('; ')}`);
    });
  });
}
