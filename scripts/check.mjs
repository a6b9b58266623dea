/** The static checks: format and lint, layers, unused code, public names without explanation. The type check is the build itself, which set-up has run. */
import { spawn } from 'node:child_process';
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

/** Runs a program of this repository, then prints what it printed and its time. Returns whether it passed. */
async function passes(title, args) {
  const start = performance.now();
  const child = spawn(process.execPath, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => (output += text));
  const status = await new Promise((resolve, reject) => child.on('error', reject).on('close', resolve));
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  console.log(`\n${output}== ${title}: ${status === 0 ? 'passed' : 'FAILED'} in ${seconds} s`);
  return status === 0;
}

/** Runs all static checks, side by side, and returns the titles of those that failed. */
export async function check() {
  const passed = await Promise.all(CHECKS.map(([title, args]) => passes(title, args)));
  return CHECKS.filter((_, i) => !passed[i]).map(([title]) => title);
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  await setup();
  process.exitCode = (await check()).length > 0 ? 1 : 0;
}
