import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { makeStyle } from '../../style.js';
import { PEER_NAMES } from './measure.js';
import { targetText, verdictOf } from './target-table.js';
import { targetsOf } from './targets.js';

describe('The table of targets', () => {
  it('names only peers that exist, with an aim not below the must', () => {
    for (const { what, targets } of ['shm', 'roce:eth0'].flatMap(targetsOf)) {
      for (const { peer, must, aim } of targets) {
        assert.ok(PEER_NAMES.includes(peer), `${what}: ${peer}`);
        assert.ok(aim >= must, what);
      }
    }
  });

  it('judges by must and aim', () => {
    const target = { peer: 'ucx', must: 0.9, aim: 1.05 };
    assert.equal(verdictOf(1.05, target), 'aim');
    assert.equal(verdictOf(0.9, target), 'must');
    assert.equal(verdictOf(0.89, target), 'below');
  });

  it('shows ratios, and why one is missing', () => {
    const text = targetText(
      {
        rows: [
          {
            what: 'WRITE',
            peer: 'ucx',
            must: 0.9,
            aim: 1.05,
            measured: 1.2,
            verdict: 'aim',
            ours: 0.15,
            theirs: 0.18,
            unit: 'us',
          },
          {
            what: 'SEND',
            peer: 'uct',
            must: 1,
            aim: 2,
            verdict: 'not measured',
            reason: 'not installed: apt-get install ucx-utils',
          },
        ],
        results: [],
        missing: {},
        cpus: [0, 1],
      },
      makeStyle(false),
      true,
    );
    assert.match(text, /WRITE │ 0\.150 us │ ucx .* 0\.9 │ 1\.05 │ ●/);
    assert.match(text, /uct: not installed: apt-get install ucx-utils/);
  });
});
