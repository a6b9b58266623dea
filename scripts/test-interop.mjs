/** `npm run test:interop`: tests against other systems (test/interop/), which may need programs that are not installed. */
import { setup } from './setup.mjs';
import { runTests, testFiles } from './test-files.mjs';

const files = testFiles(['test/interop'], process.argv[2]);
if (files.length === 0) {
  console.log('no interop tests yet (test/interop/ is empty)');
} else {
  await setup();
  process.exitCode = runTests('Interop tests', files, { concurrency: 1, timeoutMs: 600_000 }) ? 0 : 1;
}
