/**
 * Running a user's TypeScript files as they are.
 *
 * Newer Node strips types by itself. Node 20 and early 22 do not; there a module hook does the same with the same engine (swc's
 * type stripper, which Node embeds): types become blanks, so lines and columns stay true without source maps, and syntax that
 * would need code generation (enums, parameter properties) is an error. As in Node, relative imports name the file as it is
 * (`./other.ts`), and files under node_modules are left alone. Imports of a type need the word `type`.
 */
import { readFileSync } from 'node:fs';
import { createRequire, register } from 'node:module';
import { pathToFileURL } from 'node:url';

/** Whether this Node runs .ts files without help. */
function stripsTypesNatively(): boolean {
  return Boolean((process.features as { typescript?: unknown }).typescript);
}

/** Loads what a script imports of Verbena. That does nothing but load, so that nobody sees that it came first. */
async function loadImportsOf(script: string): Promise<void> {
  const { resolve } = createRequire(script);
  const imports = readFileSync(script, 'utf8').matchAll(/^import (?!type\b)[^'"]*['"](verbena\/[\w/-]+)['"]/gm);
  for (const [, name] of imports) await import(pathToFileURL(resolve(name)).href);
}

let registered = false;

/**
 * Makes `import('./user.ts')` work in this thread from now on. Does nothing where Node strips types itself, or at a second call.
 * Child processes and worker threads need `typescriptExecArgv()`.
 *
 * @param script the program, if it is known. Behind the hooks every module passes another thread twice, which takes longer than to load it: what the
 * script imports of Verbena is loaded before them.
 */
export async function registerTypeScript(script?: string): Promise<void> {
  if (registered || stripsTypesNatively()) return;
  registered = true;
  if (script !== undefined) await loadImportsOf(script).catch(() => {}); // what is wrong the script's own import will tell
  register('./hooks.js', import.meta.url);
}

/** Node options under which a child process or worker thread runs .ts files; empty where Node needs none. */
export function typescriptExecArgv(): string[] {
  return stripsTypesNatively() ? [] : ['--import', new URL('./preload.js', import.meta.url).href];
}
