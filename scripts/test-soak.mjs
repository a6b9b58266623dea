/** `npm run test:soak`: the long tests (test/soak/), minutes to hours, one at a time. */
import { setup } from './setup.mjs';
import { runTests, testFiles } from './test-files.mjs';

const files = testFiles(['test/soak'], process.argv[2]);
if (files.length === 0) {
  console.log('no soak tests yet (test/soak/ is empty)');
} else {
  await setup();
  process.exitCode = runTests('Soak tests', files, { concurrency: 1, timeoutMs: 6 * 3_600_000 }) ? 0 : 1;
}
