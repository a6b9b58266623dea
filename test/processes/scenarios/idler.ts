/** Waits for a message and does nothing else; tells how much CPU the whole process used while it waited. */

import type { WaitMode } from '../../../src/verbs/index.js';
import { Link, type Offer } from '../link.js';
import { hear, say, scenario } from '../scenario.js';

scenario<{ mode: WaitMode; name: string }>(async ({ mode, name }) => {
  const link = await Link.open(4096, {}, { mode });
  const listener = await link.device.listen(name);
  say('offer', link.offer());
  await link.join(await hear<Offer>('offer'));
  link.qp.postRecv({ sgl: [link.region.slice()], id: 1 });
  const abort = new AbortController();
  const accepting = listener.accept({ signal: abort.signal }).catch(() => {});
  const event = link.device.nextEvent({ signal: abort.signal }).catch(() => {});
  say('ready');
  const waiting = link.cq.next();
  await hear('start');
  const before = process.cpuUsage();
  const start = performance.now();
  say('waiting');
  const completion = await waiting;
  const used = process.cpuUsage(before);
  say('woken', { status: completion.status, cpuMs: (used.user + used.system) / 1000, elapsedMs: performance.now() - start });
  abort.abort();
  await Promise.all([accepting, event]);
  await hear('end');
  listener.close();
  link.close();
});
