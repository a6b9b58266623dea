/**
 * The conformance suite of the messaging layer: what every engine promises, as tests of node:test.
 *
 * It is a function of a factory that opens contexts; two contexts of a factory can reach each other, in one process.
 *
 * ```ts
 * import { openContext } from 'verbena/messaging';
 * import { messagingConformance } from 'verbena/conformance/messaging';
 *
 * messagingConformance({ name: 'verbs on shm', open: () => openContext({ device: 'shm' }) });
 * ```
 */

import { describe, it } from 'node:test';
import { activeMessages } from './messaging/active-messages.js';
import { bounds } from './messaging/bounds.js';
import { connecting } from './messaging/connecting.js';
import { failing } from './messaging/failing.js';
import { remoteMemory } from './messaging/remote-memory.js';
import { type Chapter, type MessagingFactory, runCase } from './messaging/stage.js';
import { streams } from './messaging/streams.js';
import { tags } from './messaging/tags.js';

export type { MessagingFactory } from './messaging/stage.js';

const CHAPTERS: readonly Chapter[] = [connecting, tags, bounds, activeMessages, streams, remoteMemory, failing];

/** Registers the whole suite for one engine. Call it at the top of a test file. */
export function messagingConformance(factory: MessagingFactory): void {
  describe(`messaging conformance: ${factory.name}`, () => {
    for (const chapter of CHAPTERS) {
      describe(chapter.name, () => {
        for (const [sentence, body] of Object.entries(chapter.cases)) {
          const skip = factory.skip?.find((entry) => entry.tests.includes(`${chapter.name}: ${sentence}`));
          it(sentence, { timeout: 60_000, skip: skip?.reason ?? false }, () => runCase(factory, body));
        }
      });
    }
  });
}
