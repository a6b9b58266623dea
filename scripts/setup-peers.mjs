/**
 * `npm run setup:peers`: installs the systems that `verbena bench` measures beside Verbena. Debian packages need root; the npm ones go to
 * bench/peers/node_modules, outside the product's dependencies. What is there already is left alone.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './setup.mjs';
import { ensureCommands } from './system-packages.mjs';

const missing = ensureCommands({
  ucx_perftest: 'ucx-utils',
  mpirun: 'openmpi-bin',
  mpicc: 'libopenmpi-dev gcc libc6-dev',
  taskset: 'util-linux',
});

const peers = join(root, 'bench', 'peers');
if (!existsSync(join(peers, 'node_modules', 'zeromq'))) {
  process.stderr.write('installing the npm peers into bench/peers ...\n');
  const { status } = spawnSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: peers,
    stdio: ['ignore', 2, 2],
  });
  if (status !== 0) missing.push('zeromq (npm ci in bench/peers failed)');
}

if (missing.length > 0) {
  console.error(`not installed: ${missing.join(', ')}`);
  process.exitCode = 1;
} else {
  console.log('all peers are installed: verbena bench verbs --op send --peer all');
}
