/**
 * `npm start`: makes the clone ready, then trains a network on MNIST by several processes (`verbena train mnist`); words behind `--` are its options.
 *
 * The matrix product is OpenBLAS where it is installed or can be (root on Debian), Verbena's own kernel otherwise.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { root, setup } from './setup.mjs';
import { ensureCommands, ensureLibrary } from './system-packages.mjs';

try {
  ensureCommands({ cc: 'gcc libc6-dev' });
  await setup();
  if (!ensureLibrary('libopenblas.so.0', 'libopenblas0-pthread')) {
    process.stderr.write('no OpenBLAS: the own matrix product is used; apt-get install libopenblas0-pthread makes it faster\n');
  }
  const words = process.argv.slice(2);
  const given = words.some((word) => /^(-o|--output)(=|$)/.test(word));
  const command = [
    join(root, 'bin', 'verbena.js'),
    'train',
    'mnist',
    ...(given ? [] : ['-o', join(root, 'out', 'mnist')]),
    ...words,
  ];
  process.exitCode = spawnSync(process.execPath, command, { stdio: 'inherit' }).status ?? 1;
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
