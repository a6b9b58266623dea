import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Explanation } from '../../../messaging/index.js';
import { styleFor } from '../../style.js';
import { explainTag } from './explain-tag.js';

describe('verbena explain tag', () => {
  const explain = (options: { size: number; link?: 'edr' }) =>
    explainTag.run({
      options: { engine: 'shm', lanes: 1, link: undefined, ...options },
      positionals: [],
      json: false,
      style: styleFor({}),
      width: 100,
      progress: () => {},
      screen: () => {},
      interactive: false,
      signal: new AbortController().signal,
    });

  it('explains an endpoint of this machine', async () => {
    const { document, text } = await explain({ size: 1 << 20 });
    const explanation = document as Explanation;
    assert.equal(explanation.protocol, 'rndv-get');
    assert.match(typeof text === 'function' ? text() : text, /1 MiB: rndv-get/);
  });

  it('explains an invented link, with its threshold', async () => {
    assert.equal(((await explain({ size: 29_378, link: 'edr' })).document as Explanation).protocol, 'eager-zcopy');
    assert.equal(((await explain({ size: 29_379, link: 'edr' })).document as Explanation).protocol, 'rndv-get');
  });
});
