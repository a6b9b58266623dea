/** Owns an on-demand region of 4 GiB and tells how much of it is resident. */

import { openDevice } from '../../../src/verbs/open-device.js';
import { holdings } from '../holdings.js';
import { Link, type Offer } from '../link.js';
import { hear, say, scenario } from '../scenario.js';

scenario<{ length: number }>(async ({ length }) => {
  const device = await openDevice('shm');
  const before = await holdings();
  const rights = { localWrite: true, remoteRead: true, remoteWrite: true, remoteAtomic: true, onDemand: true };
  const link = new Link(device, device.alloc(length, { onDemand: true }), {}, {}, rights);
  say('offer', { ...link.offer(), grown: (await holdings()).resident - before.resident });
  await link.join(await hear<Offer>('offer'));
  say('ready');
  const { offsets } = await hear<{ offsets: number[] }>('touched');
  say('report', {
    grown: (await holdings()).resident - before.resident,
    bytes: offsets.map((offset) => link.region.bytes[offset]),
  });
  await hear('end');
  link.close();
});
