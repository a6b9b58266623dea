/** A process of another user reaches nothing. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { processTest } from './harness.js';
import { Link } from './link.js';

const NOBODY = 65534;

processTest('a process of another user is refused by address, by handle and by name', async (hand) => {
  if (process.getuid?.() !== 0) {
    hand.context.skip('only root can start a process of another user');
    return;
  }
  const probe = spawnSync(process.execPath, [fileURLToPath(new URL('./random.js', import.meta.url))], {
    uid: NOBODY,
    gid: NOBODY,
  });
  if (probe.error || probe.status !== 0) {
    hand.context.skip(
      `another user cannot run node, or cannot read this folder: ${probe.error?.message ?? String(probe.stderr).trim()}`,
    );
    return;
  }
  const link = await Link.open(4096);
  const name = `foreign-${process.pid}`;
  const listener = await link.device.listen(name);
  await link.join(link.offer());
  const stranger = hand.process('stranger', { name, offer: link.offer() }, { uid: NOBODY, gid: NOBODY });
  const tried = await stranger.hear<Record<'handle' | 'direct' | 'named' | 'address', string> & { uid: number }>('tried');
  assert.equal(tried.uid, NOBODY);
  assert.equal(tried.handle, 'VERBS_REFUSED');
  assert.equal(tried.direct, 'VERBS_REFUSED');
  assert.equal(tried.address, 'VERBS_REFUSED');
  assert.ok(['VERBS_REFUSED', 'VERBS_NO_DEVICE'].includes(tried.named), `by name: ${tried.named}`);
  assert.ok(
    link.region.bytes.every((byte) => byte === 0),
    'nothing was written',
  );
  await stranger.exited;
  listener.close();
  link.close();
});
