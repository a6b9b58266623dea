/**
 * `npm test`: set-up with the type check, the static checks, the unit tests, then the tests of several processes. Two files run at a time, but for those that hold
 * bounds on time or look at the whole machine. `npm test -- pattern` runs only the test files whose path contains the pattern, and no static checks.
 */
import { check } from './check.mjs';
import { setup } from './setup.mjs';
import { ensureCommands } from './system-packages.mjs';
import { runTests, testFiles } from './test-files.mjs';

const SEPARATE = ['test/interop/', 'test/soak/'];
/** Process tests that run alone: they hold bounds on time, measure, or look at the whole machine. */
const ALONE =
  /\/test\/(cli\/bench|collectives\/(communicator|silent-death|world)|launch\/liveness|messaging\/processes|processes\/(allocation|faults|idle|leaks|memory-limits|system-calls)|train\/(server-cost|stragglers))\.test/;
/** Proofs and simulations make many objects that die young: with more room for them their tests take a sixth less time. */
const ROOMY = ['--max-semi-space-size=64'];

const pattern = process.argv[2];
ensureCommands({ cc: 'gcc libc6-dev', strace: 'strace' });

const start = performance.now();
console.log('== Set-up and type check');
try {
  await setup();
} catch (error) {
  console.error(error.message);
  process.exit(1);
}
console.log(`== Set-up and type check: passed in ${((performance.now() - start) / 1000).toFixed(1)} s`);

const failed = pattern === undefined ? await check() : [];
const unitTests = testFiles(['src'], pattern);
const processTests = testFiles(['conformance', 'test', 'examples'], pattern).filter(
  (file) => !SEPARATE.some((folder) => file.startsWith(`dist/${folder}`)),
);
if (unitTests.length + processTests.length === 0) failed.push(`no test file matches '${pattern}'`);
const suites = [
  ['Unit tests', unitTests, { concurrency: 2, timeoutMs: 120_000, nodeOptions: ROOMY }],
  ['Tests of several processes', processTests.filter((file) => !ALONE.test(file)), { concurrency: 2, timeoutMs: 300_000 }],
  ['Tests of time and of the machine', processTests.filter((file) => ALONE.test(file)), { concurrency: 1, timeoutMs: 300_000 }],
];
for (const [title, files, options] of suites) {
  if (files.length > 0 && !runTests(title, files, options)) failed.push(title);
}
if (failed.length > 0) {
  console.error(`\nFAILED: ${failed.join(', ')}`);
  process.exitCode = 1;
}
