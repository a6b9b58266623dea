/** The simulated fabric, for long: a hundred thousand seeds, and the largest fabric. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { playScenario } from '../../src/verbs/providers/sim/scenario.js';

const SEEDS = Number(process.env['VERBENA_SEEDS'] ?? 100_000);
const FIRST = 1001;
const VERBENA = fileURLToPath(new URL('../../../bin/verbena.js', import.meta.url));

test(`${SEEDS} seeds: operations happen once, in order, in place, or end in a correct error`, () => {
  for (let seed = FIRST; seed < FIRST + SEEDS; seed++) {
    const { fault, plan } = playScenario(seed);
    assert.equal(fault, undefined, `seed ${seed}, plan ${JSON.stringify(plan)}: verbena sim replay ${seed} plays it again`);
  }
});

for (const type of ['UD', 'DC']) {
  test(`1,024 devices, all-to-all over ${type}: under 60 s of a core and under 2 GB`, () => {
    const args = [VERBENA, 'sim', 'scale', '--devices', '1024', '--type', type, '--json'];
    const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 300_000 });
    const result = JSON.parse(stdout || '{}') as {
      messages?: number;
      cpuSeconds: number;
      peakBytes: number;
      packetsPerSecond: number;
    };
    assert.equal(result.messages, 1024 * 1023, stderr);
    console.log(
      `${type}: ${result.cpuSeconds.toFixed(1)} s of a core, ${result.packetsPerSecond} packets/s, ${(result.peakBytes / 1e9).toFixed(2)} GB`,
    );
    assert.ok(result.cpuSeconds < 60 && result.peakBytes < 2e9, stdout);
  });
}
