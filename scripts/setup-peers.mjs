/**
 * `npm run setup:peers [-- --with-pytorch]`: installs the systems that `verbena bench` measures beside Verbena. Debian packages need root; the npm
 * ones go to bench/peers/node_modules, outside the product's dependencies. What is there already is left alone.
 *
 * --with-pytorch also makes a Python environment in bench/peers/python with PyTorch from PyPI: gloo beside the collectives, and training beside
 * training. On x86-64 that wheel carries CUDA, about 3 GB to download; where pip knows an index with CPU wheels (PIP_EXTRA_INDEX_URL), it
 * takes those.
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
  'mpirun.mpich': 'mpich',
  'mpicc.mpich': 'libmpich-dev',
  taskset: 'util-linux',
});

const peers = join(root, 'bench', 'peers');
if (['zeromq', '@grpc/grpc-js'].some((name) => !existsSync(join(peers, 'node_modules', name)))) {
  process.stderr.write('installing the npm peers into bench/peers ...\n');
  const { status } = spawnSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: peers,
    stdio: ['ignore', 2, 2],
  });
  if (status !== 0) missing.push('zeromq, @grpc/grpc-js (npm ci in bench/peers failed)');
}

if (process.argv.includes('--with-pytorch')) {
  const environment = join(peers, 'python');
  const python = join(environment, 'bin', 'python3');
  const quiet = { stdio: ['ignore', 2, 2] };
  const hasPyTorch = () => existsSync(python) && spawnSync(python, ['-c', 'import torch.distributed']).status === 0;
  if (!hasPyTorch()) {
    process.stderr.write('installing PyTorch into bench/peers/python ...\n');
    const made = ensureCommands({ python3: 'python3 python3-venv' }).length === 0;
    if (made) spawnSync('python3', ['-m', 'venv', environment], quiet);
    const wheels = ['--only-binary=:all:', '--disable-pip-version-check', '--quiet', 'torch', 'numpy'];
    if (made) spawnSync(python, ['-m', 'pip', 'install', ...wheels], quiet);
    if (!hasPyTorch())
      missing.push('PyTorch (python3 -m venv bench/peers/python && bench/peers/python/bin/pip install torch numpy)');
  }
}

if (missing.length > 0) {
  console.error(`not installed: ${missing.join(', ')}`);
  process.exitCode = 1;
} else {
  console.log('all peers are installed: verbena bench verbs --op send --peer all');
}
