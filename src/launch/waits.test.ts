import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Board, SITE_COUNT, SLOT_COUNT } from './board.js';
import { WaitRegistry } from './waits.js';

it('sixteen calls are seen at a time; more wait unseen, and a slot is free again afterwards', () => {
  const waits = new WaitRegistry(Board.make(2, 0));
  const site = waits.site('receive');
  const slots = Array.from({ length: SLOT_COUNT }, () => waits.enter(site));
  assert.equal(new Set(slots).size, SLOT_COUNT);
  assert.equal(waits.enter(site), -1);
  waits.leave(-1);
  waits.leave(slots[3]);
  assert.equal(waits.enter(site), slots[3]);
});

it('a name keeps its number, and names beyond the 64th take those of the oldest', () => {
  const waits = new WaitRegistry(Board.make(1, 0));
  const first = waits.site('a');
  assert.equal(waits.site('a'), first);
  for (let i = 0; i < SITE_COUNT - 1; i++) waits.site(`name ${i}`);
  assert.equal(waits.site('one more'), first);
  assert.notEqual(waits.site('a'), first);
});
