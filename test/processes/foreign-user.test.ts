/** A process of another user reaches nothing. */

import assert from 'node:assert/strict';
import { accessSync, constants } from 'node:fs';
import { processTest } from './harness.js';
import { Link } from './link.js';

const NOBODY = 65534;

processTest('a process of another user is refused by address, by handle and by name', async (hand) => {
  if (process.getuid?.() !== 0) {
    hand.context.skip('only root can start a process of another user');
    return;
  }
  const link = await Link.open(4096);
  const name = `foreign-${process.pid}`;
  const listener = await link.device.listen(name);
  await link.join(link.offer());
  accessSync(process.execPath, constants.X_OK);
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
