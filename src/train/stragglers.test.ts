import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findStraggler } from './stragglers.js';

const even = { computeMs: 100, waitMs: 1, transferMs: 2 };

test('nobody stands out among equals, and alone there is nobody to wait for', () => {
  assert.equal(findStraggler([even, even, even]).rank, undefined);
  assert.equal(findStraggler([even]).rank, undefined);
});

test('the rank that computes slowly is named, with what the others wait', () => {
  const waiting = { computeMs: 100, waitMs: 101, transferMs: 2 };
  const report = findStraggler([waiting, { ...even, computeMs: 200 }, waiting], ['a', 'b', 'c']);
  assert.equal(report.rank, 1);
  assert.equal(report.cause, 'compute');
  assert.equal(report.factor, 2);
  assert.ok(Math.abs(report.othersWait - 0.4975) < 0.001);
  assert.match(report.text, /^b computes 2\.00 times as long as the others, which wait 50 %/);
});

test('a rank whose transfers are slow is told apart from one that computes slowly', () => {
  const waiting = { computeMs: 100, waitMs: 60, transferMs: 5 };
  const report = findStraggler([waiting, waiting, { computeMs: 101, waitMs: 0, transferMs: 64 }]);
  assert.equal(report.rank, 2);
  assert.equal(report.cause, 'network');
});
