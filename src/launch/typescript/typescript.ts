/**
 * Running a user's TypeScript files as they are.
 *
 * Newer Node strips types by itself. Node 20 and early 22 do not; there a module hook does the same with the same engine (swc's
 * type stripper, which Node embeds): types become blanks, so lines and columns stay true without source maps, and syntax that
 * would need code generation (enums, parameter properties) is an error. As in Node, relative imports name the file as it is
 * (`./other.ts`), and files under node_modules are left alone. Imports of a type need the word `type`.
 */
import { register } from 'node:module';

/** Whether this Node runs .ts files without help. */
function stripsTypesNatively(): boolean {
  return Boolean((process.features as { typescript?: unknown }).typescript);
}

let registered = false;

/**
 * Makes `import('./user.ts')` work in this thread from now on. Does nothing where Node strips types itself, or at a second call.
 * Child processes and worker threads need `typescriptExecArgv()`.
 */
export function registerTypeScript(): void {
  if (registered || stripsTypesNatively()) return;
  registered = true;
  register('./hooks.js', import.meta.url);
}

/** Node options under which a child process or worker thread runs .ts files; empty where Node needs none. */
export function typescriptExecArgv(): string[] {
  return stripsTypesNatively() ? [] : ['--import', new URL('./preload.js', import.meta.url).href];
}
