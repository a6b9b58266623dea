/** Finding and running test files: every *.test.ts of the tree, in its compiled form. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { passes } from './check.mjs';
import { root } from './setup.mjs';

/** Compiled paths of the test sources under the given folders whose path contains `pattern`. */
export function testFiles(folders, pattern = '') {
  const sources = folders.flatMap((folder) => {
    try {
      return readdirSync(join(root, folder), { recursive: true }).map((name) => join(folder, name));
    } catch (error) {
      if (error.code === 'ENOENT') return [];
      throw error;
    }
  });
  const tests = sources.filter((name) => name.endsWith('.test.ts') && name.includes(pattern));
  return tests.sort().map((name) => join('dist', name.replace(/\.ts$/, '.js')));
}

/** Runs the files in one `node --test`, `concurrency` files at a time; `timeoutMs` bounds each test and each file. */
export function runTests(title, files, { concurrency, timeoutMs }) {
  const options = ['--enable-source-maps', '--test', `--test-concurrency=${concurrency}`, `--test-timeout=${timeoutMs}`];
  return passes(`${title} (${files.length} files)`, [...options, ...files]);
}
