/** The version of this package: ranks of one job must have the same. */

import { readFileSync } from 'node:fs';

let known: string | undefined;

export function packageVersion(): string {
  if (known === undefined) {
    const manifest = new URL('../../../package.json', import.meta.url);
    known = (JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }).version;
  }
  return known;
}
