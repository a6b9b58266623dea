/** Finding and running test files: every *.test.ts of the tree, in its compiled form. */
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
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

/**
 * Runs the files in one `node --test`, `concurrency` files at a time; `timeoutMs` bounds each test and each file, `nodeOptions` go to the process of
 * each file. Returns whether all passed. Node's own summary is the last thing printed.
 */
export function runTests(title, files, { concurrency, timeoutMs, nodeOptions = [] }) {
  console.log(`\n== ${title} (${files.length} files)`);
  const options = ['--enable-source-maps', '--test', `--test-concurrency=${concurrency}`, `--test-timeout=${timeoutMs}`];
  const { status } = spawnSync(process.execPath, [...nodeOptions, ...options, ...files], {
    cwd: root,
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  return status === 0;
}
