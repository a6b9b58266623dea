import assert from 'node:assert/strict';
import { it } from 'node:test';
import { newCounters } from './manager.js';
import { fetchInOrder, Window } from './window.js';

it('bytes in flight stay within the window, but the block whose turn it is always enters', async () => {
  const window = new Window(100);
  assert.equal(window.enter(60, 1), undefined);
  assert.equal(window.enter(40, 2), undefined);
  let third = false;
  const waiting = window.enter(30, 3)?.then(() => {
    third = true;
  });
  assert.equal(window.hasRoom, false);
  assert.equal(window.enter(500, 0), undefined, 'turn 0 is now');
  assert.equal(window.most, 600);
  window.leave(500);
  window.leave(60);
  await waiting;
  assert.ok(third);
});

it('a later block that fills the window does not keep an earlier one out', async () => {
  const window = new Window(10);
  window.setTurn(1);
  assert.equal(window.enter(10, 5), undefined);
  const earlier = window.enter(10, 2);
  window.setTurn(2);
  await earlier;
});

it('whoever keeps all blocks gets all of them, one at a time beyond the window', async () => {
  const window = new Window(10);
  const seen: number[] = [];
  const fetch = async (map: number) => {
    await window.enter(6, map);
    return [{ map, bytes: new Uint8Array(6), release: () => window.leave(6) }];
  };
  for await (const { map } of fetchInOrder(window, 5, 3, newCounters(), undefined, fetch)) seen.push(map);
  assert.deepEqual(seen, [0, 1, 2, 3, 4]);
});
