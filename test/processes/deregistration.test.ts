/** When deregister returns, no late write comes through, however hard peers were writing. */

import assert from 'node:assert/strict';
import { processTest, type Stagehand } from './harness.js';
import { Link, type Offer } from './link.js';

const CANARY = 0xc5;

async function deregisterUnderFire(hand: Stagehand, length: number, rounds: number, memory: 'arena' | 'private'): Promise<void> {
  const arena = await Link.open(4096);
  const buffer = memory === 'arena' ? arena.device.alloc(length) : new ArrayBuffer(length);
  const rights = { localWrite: true, remoteWrite: true };
  const link = new Link(arena.device, buffer, {}, {}, rights);
  const bytes = new Uint8Array(buffer);
  const writer = hand.process('writer', { length, fill: 1, rounds });
  const offer = await writer.hear<Offer>('offer');
  writer.say({ type: 'offer', ...link.offer() });
  let writes = 0;
  for (let round = 0; round < rounds; round++) {
    if (round > 0) link.region = link.pd.register(buffer, rights);
    await link.join(offer);
    bytes.fill(0);
    writer.say({ type: 'region', remote: link.region.remote() });
    await writer.hear('writing');
    const deadline = performance.now() + 5000;
    while (Atomics.load(bytes, length - 1) !== 1) assert.ok(performance.now() < deadline, 'writes arrive');
    link.region.deregister();
    bytes.fill(CANARY);
    const stopped = await writer.hear<{ failed: string; writes: number }>('stopped');
    assert.equal(stopped.failed, 'REM_ACCESS_ERR');
    writes += stopped.writes;
    const late = bytes.findIndex((byte) => byte !== CANARY);
    assert.equal(late, -1, `round ${round}: byte ${late} was written after deregister returned`);
  }
  hand.context.diagnostic(`${writes} writes of ${length} bytes`);
  writer.say({ type: 'end' });
  await writer.exited;
  link.close();
}

for (const memory of ['arena', 'private'] as const) {
  for (const [length, rounds] of [
    [8, 40],
    [4096, 40],
    [300_000, 30],
    [4 << 20, 15],
  ]) {
    processTest(`deregistration of ${memory} memory under writes of ${length} bytes lets no late write through`, (hand) =>
      deregisterUnderFire(hand, length, rounds, memory),
    );
  }
}
