/** The hot path allocates nothing: prepared posts and polls take no memory of the JavaScript heap. */

import assert from 'node:assert/strict';
import { processTest } from './harness.js';

processTest('prepared posts and polls take no heap', async (hand) => {
  const execArgv = ['--expose-gc', '--min-semi-space-size=64', '--max-semi-space-size=64'];
  const loops = hand.process('hot-loops', {}, { execArgv });
  const { type: _, ...taken } = await loops.hear<Record<string, number> & { type: string }>('taken');
  hand.context.diagnostic(
    Object.entries(taken)
      .map(([name, bytes]) => `${name} ${bytes.toFixed(2)} B`)
      .join(', '),
  );
  // One number on the heap would be 12 or 16 bytes.
  for (const [name, bytes] of Object.entries(taken))
    assert.ok(bytes < 2, `${name} takes ${bytes.toFixed(1)} bytes per operation`);
  await loops.exited;
});
