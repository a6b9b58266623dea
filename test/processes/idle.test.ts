/** Waiting costs no CPU: in event and adaptive mode an idle process uses less than 1 % of a core, and wakes up at once. */

import assert from 'node:assert/strict';
import { pause, processTest } from './harness.js';
import { Link, type Offer } from './link.js';

for (const mode of ['event', 'adaptive'] as const) {
  processTest(`an idle process in ${mode} mode uses less than 1 % of a core`, async (hand) => {
    const idler = hand.process('idler', { mode, name: `idle-${process.pid}-${mode}` });
    const link = await Link.open(4096);
    const offer = await idler.hear<Offer>('offer');
    idler.say({ type: 'offer', ...link.offer() });
    await link.join(offer);
    await idler.hear('ready');
    // The process has settled when compiling and loading are over; the measured time starts after that.
    await pause(500);
    idler.say({ type: 'start' });
    await idler.hear('waiting');
    await pause(2500);
    link.qp.postSend({ opcode: 'SEND', sgl: [link.region.slice(0, 8)] });
    link.next();
    const woken = await idler.hear<{ status: string; cpuMs: number; elapsedMs: number }>('woken');
    assert.equal(woken.status, 'SUCCESS');
    const share = woken.cpuMs / woken.elapsedMs;
    hand.context.diagnostic(`${woken.cpuMs.toFixed(1)} ms of CPU in ${woken.elapsedMs.toFixed(0)} ms`);
    assert.ok(woken.elapsedMs >= 2400, 'it did wait');
    assert.ok(share < 0.01, `${(share * 100).toFixed(2)} % of a core`);
    idler.say({ type: 'end' });
    await idler.exited;
    link.close();
  });
}
