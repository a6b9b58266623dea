/**
 * Gives every compiled module constants of its own. V8 puts the value of a module's own constant into the code; one that is imported or exported lies in a cell, from where it is
 * loaded each time and checked twice (is it initialised, is it a number). Hot loops are full of such names: words of rows, offsets in messages.
 *
 *   import { W_KIND, wireOf } from './wire.js';      import { W_KIND as W_KIND$, wireOf } from './wire.js'; const W_KIND = W_KIND$;
 *   export const PENDING = 1;                        const PENDING = 1, PENDING$ = PENDING; export { PENDING$ as PENDING };
 *
 * Lines stay lines, so source maps hold. What was rewritten is not rewritten again.
 */

import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const IMPORT = /^import \{ (.*) \} from ('\.[^']*');$/gm;
const EXPORT = /^export const ([A-Z][A-Z0-9_]*) = (.*);$/gm;
const CONSTANT = /^[A-Z][A-Z0-9_]*$/;

function ownImports(line, list, from) {
  const names = list.replace(/,$/, '').split(', ');
  const constants = names.filter((name) => CONSTANT.test(name));
  if (constants.length === 0) return line;
  const renamed = names.map((name) => (CONSTANT.test(name) ? `${name} as ${name}$` : name));
  return `import { ${renamed.join(', ')} } from ${from}; const ${constants.map((name) => `${name} = ${name}$`).join(', ')};`;
}

/** Rewrites the modules of a folder. */
export function ownConstants(folder) {
  for (const entry of readdirSync(folder, { recursive: true })) {
    if (!entry.endsWith('.js')) continue;
    const path = join(folder, entry);
    const source = readFileSync(path, 'utf8');
    const text = source.replace(IMPORT, ownImports).replace(EXPORT, 'const $1 = $2, $1$$ = $1; export { $1$$ as $1 };');
    if (text !== source) writeFileSync(path, text);
  }
}
