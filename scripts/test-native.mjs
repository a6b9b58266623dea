/**
 * `npm run test:native`: the C code under AddressSanitizer, UndefinedBehaviorSanitizer, ThreadSanitizer and valgrind.
 *
 *   1. each native/tests/*.c, a program of its own, with sanitizers;
 *   2. those of code that two threads of a process work on at once, with the thread sanitizer;
 *   3. all of them, plainly built, under valgrind;
 *   4. the unit tests that go through the addon and the conformance suite of the shm provider, in Node, with an addon built with
 *      sanitizers; and where their libraries are, the tests of the addons for libibverbs and UCX.
 *
 * Test programs are linked with every file of native/ that does not include <node_api.h> or "uv.h", directly or through a header:
 * those files are the doorway and need a Node around them. Warnings are errors here.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { cFiles, compileObjects } from './native-sources.mjs';
import { root, setup } from './setup.mjs';
import { ensureCommands } from './system-packages.mjs';
import { runTests, testFiles } from './test-files.mjs';

const CC = (process.env.CC || 'cc').split(/\s+/);
const PLAIN = ['-std=gnu11', '-Wall', '-Wextra', '-Werror', '-pthread', '-g', '-O1'];
const SANITIZED = ['-fsanitize=address,undefined', '-fno-sanitize-recover=all', '-fno-omit-frame-pointer'];
/** Without warnings: gcc has one for every fence, which that sanitizer does not follow; the other two kinds show the rest. */
const THREADS = ['-fsanitize=thread', '-w'];
/** The others fork, or have no second thread of their own. */
const THREADED = ['apply.c'];
const LEAKS = 'definite,indirect';
const VALGRIND = [
  '--quiet',
  '--error-exitcode=1',
  '--leak-check=full',
  `--show-leak-kinds=${LEAKS}`,
  `--errors-for-leak-kinds=${LEAKS}`,
];
/** Folders whose unit tests go through the addon. */
const ADDON_TESTS = ['src/native', 'src/observe', 'src/launch', 'src/verbs', 'src/nn'];
/** The tests of the build itself compile addons of their own; a training takes minutes with sanitizers. */
const LEFT_OUT = /\/(build|build-lock|train-loop)\.test\.js$/;
const CONFORMANCE = 'conformance-shm';
/** Addons for libraries that not every machine has: where each is described, and what is run with it. */
const OPTIONAL = [
  {
    module: 'messaging/ucx/addon.js',
    name: 'UCX',
    tests: ['test/interop/messaging-ucx.test.js', 'test/interop/ucx-kills.test.js'],
  },
  { module: 'verbs/providers/ibverbs/addon.js', name: 'IBVERBS', tests: ['test/ibverbs/stub.test.js'] },
];

const native = join(root, 'native');
const failed = [];

function run(title, command, args, env = {}) {
  const start = performance.now();
  const { status, signal, error } = spawnSync(command, args, {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'inherit', 'inherit'],
    timeout: 300_000,
  });
  const passed = status === 0;
  const reason = passed ? 'passed' : `FAILED (${error?.message ?? signal ?? `status ${status}`})`;
  console.log(`== ${title}: ${reason} in ${((performance.now() - start) / 1000).toFixed(1)} s`);
  if (!passed) failed.push(title);
  return passed;
}

function testPrograms(out) {
  const all = cFiles(join(native, 'tests'));
  for (const [kind, flags, programs] of [
    ['sanitizers', SANITIZED, all],
    ['threads', THREADS, THREADED],
    ['valgrind', [], all],
  ]) {
    const command = [...CC, ...PLAIN, ...flags, '-I', native];
    const objects = compileObjects(command, join(out, kind));
    if (objects === undefined) {
      failed.push(`compile native/ for ${kind}`);
      continue;
    }
    for (const program of programs) {
      const name = basename(program, '.c');
      const binary = join(out, `${name}-${kind}`);
      const inputs = [join(native, 'tests', program), ...objects, '-lm', '-ldl', '-lrt'];
      if (!run(`compile ${name} for ${kind}`, command[0], [...command.slice(1), '-o', binary, ...inputs])) continue;
      if (kind === 'valgrind') run(`${name} under valgrind`, 'valgrind', [...VALGRIND, binary]);
      else
        run(`${name} under ${kind === 'threads' ? 'the thread sanitizer' : 'sanitizers'}`, binary, [], {
          UBSAN_OPTIONS: 'print_stacktrace=1',
        });
    }
  }
}

const built = (path) => join(root, 'dist', path);
const importBuilt = (path) => import(pathToFileURL(built(path)).href);

/** Compiles the optional addons that this machine has the libraries for. Returns the tests to run with them. */
async function optionalAddons(out, compileAddon, flags) {
  const files = [];
  for (const { module, name, tests } of OPTIONAL) {
    const addon = (await importBuilt(`src/${module}`))[name];
    const path = join(out, `verbena-${addon.name}-sanitized.node`);
    try {
      compileAddon(path, { flags, addon });
      process.env[`VERBENA_ADDON_${name}`] = path;
      files.push(...tests.map(built));
    } catch (error) {
      if (error.code !== 'VERBENA_NO_LIBRARY') throw error;
      console.log(`== the addon for ${addon.name}: skipped, ${error.message}`);
    }
  }
  return files;
}

async function sanitizedAddon(out) {
  const { compileAddon } = await importBuilt('src/native/build.js');
  const addon = join(out, 'verbena-sanitized.node');
  const flags = ['-g', '-O1', '-Werror', ...SANITIZED];
  compileAddon(addon, { flags });
  const optional = await optionalAddons(out, compileAddon, flags);
  const runtime = spawnSync(CC[0], [...CC.slice(1), '-print-file-name=libasan.so'], { encoding: 'utf8' }).stdout.trim();
  // Node itself is not instrumented: its own leaks are not ours, it handles SIGSEGV for WebAssembly, and an allocation that is
  // too big is an exception in JavaScript.
  Object.assign(process.env, {
    VERBENA_ADDON: addon,
    LD_PRELOAD: runtime,
    ASAN_OPTIONS: 'detect_leaks=0:abort_on_error=1:allow_user_segv_handler=1:allocator_may_return_null=1',
    UBSAN_OPTIONS: 'print_stacktrace=1',
  });
  const units = testFiles(ADDON_TESTS).filter((file) => !LEFT_OUT.test(file));
  const files = [...units, ...testFiles(['test'], CONFORMANCE), ...optional];
  if (!runTests('Tests with the sanitized addon', files, { concurrency: 1, timeoutMs: 300_000 })) failed.push('tests in Node');
}

await setup();
failed.push(...ensureCommands({ cc: 'gcc libc6-dev', valgrind: 'valgrind' }).map((command) => `${command} is missing`));
const out = mkdtempSync(join(tmpdir(), 'verbena-native-'));
try {
  testPrograms(out);
  await sanitizedAddon(out);
} finally {
  rmSync(out, { recursive: true });
}
if (failed.length > 0) {
  console.error(`\nFAILED: ${failed.join(', ')}`);
  process.exitCode = 1;
}
