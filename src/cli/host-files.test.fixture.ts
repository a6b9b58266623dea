/** A machine made of files in a temporary folder, for tests of whatever reads /proc and /sys. */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { TestContext } from 'node:test';
import { HostFiles } from './host-files.js';

/** Files by path, without the leading slash. The folder goes away with the test. */
export function fakeHost(context: TestContext, files: Readonly<Record<string, string>>): HostFiles {
  const root = mkdtempSync(join(tmpdir(), 'verbena-host-'));
  context.after(() => rmSync(root, { recursive: true }));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return new HostFiles(root);
}
