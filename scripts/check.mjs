/** The static checks: format and lint, layers, unused code, public names without explanation. The type check is the build itself, which set-up has run. */
import { spawnSync } from 'node:child_process';
import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { root, setup } from './setup.mjs';

const CHECKS = [
  ['Format and lint', [join('node_modules', '@biomejs', 'biome', 'bin', 'biome'), 'ci', '--colors=off', '.']],
  ['Layers', [join('scripts', 'layers.mjs')]],
  ['Public names', [join('scripts', 'documented.mjs')]],
  ['Unused code', [join('node_modules', 'knip', 'bin', 'knip.js'), '--no-progress']],
];

/** Prints a heading, runs a program of this repository, prints its time. Returns whether it passed. */
function passes(title, args) {
  const start = performance.now();
  console.log(`\n== ${title}`);
  const { status } = spawnSync(process.execPath, args, { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] });
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  console.log(`== ${title}: ${status === 0 ? 'passed' : 'FAILED'} in ${seconds} s`);
  return status === 0;
}

/** Runs all static checks and returns the titles of those that failed. */
export function check() {
  return CHECKS.filter(([title, args]) => !passes(title, args)).map(([title]) => title);
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  await setup();
  process.exitCode = check().length > 0 ? 1 : 0;
}
