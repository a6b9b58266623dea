/** `npm start`: makes the clone ready, then shows what Verbena does (`verbena demo`). */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { root, setup } from './setup.mjs';

try {
  await setup();
  const demo = [join(root, 'bin', 'verbena.js'), 'demo', ...process.argv.slice(2)];
  process.exitCode = spawnSync(process.execPath, demo, { stdio: 'inherit' }).status ?? 1;
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
