/**
 * The Arrow library, loaded by whoever first reads or writes a table: it takes as long to load as all the rest of a dataset's program. Not by `import()`,
 * because the schema of a file is read in a call that does not wait.
 */
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);

export function arrow(): typeof import('apache-arrow') {
  return require('apache-arrow') as typeof import('apache-arrow');
}
