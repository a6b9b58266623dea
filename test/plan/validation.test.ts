import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { medianError, predictHeldOut } from '../../src/plan/fit/calibration.js';
import { crossSimulatorValues } from './cross-simulator.js';
import { knownValues } from './known-values.js';
import { recordedCalibration } from './recorded-calibration.js';
import { validationPage } from './validation-page.js';

test('every value known from the literature comes out to the printed digit', () => {
  const values = knownValues();
  assert.ok(values.length > 50);
  for (const { what, expected, ours } of values) assert.equal(ours, expected, what);
});

test('other simulators print the same nanoseconds', () => {
  for (const { what, theirsNs, oursNs } of crossSimulatorValues()) assert.equal(oursNs, theirsNs, what);
});

test('collectives that were not measured are predicted within 30 %, in the middle, from those that were', () => {
  for (const run of recordedCalibration.runs) {
    const calibrated = new Set(run.calibration.map(({ collective, algorithm, bytes }) => `${collective}:${algorithm} ${bytes}`));
    for (const { collective, algorithm, bytes } of run.heldOut)
      assert.ok(!calibrated.has(`${collective}:${algorithm} ${bytes}`), `${collective}:${algorithm} was calibrated with`);
    assert.ok(run.heldOut.length > 50);
  }
  assert.ok(medianError(recordedCalibration.runs.flatMap(predictHeldOut)) < 0.3);
});

const page = 'docs/validation.md';

test('docs/validation.md is what the numbers say', {
  skip: existsSync('docs') ? false : 'not run from the root of the repository',
}, () => {
  const text = validationPage();
  if (process.env['VERBENA_UPDATE_DOCS'] === '1') writeFileSync(page, text);
  assert.equal(readFileSync(page, 'utf8'), text, 'run this test with VERBENA_UPDATE_DOCS=1 to write it again');
});
