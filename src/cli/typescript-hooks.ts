/**
 * The module hook behind typescript.ts; Node runs it in its loader thread. A .ts file is read, stripped and handed on as an ES
 * module, or as CommonJS when it is .cts or the nearest package.json says `"type": "commonjs"`.
 */
import { readFileSync } from 'node:fs';
import type { LoadHook } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { transformSync } from '@swc/wasm-typescript';

/** What swc throws: a plain object, not an Error. */
interface StripError {
  message: string;
  snippet?: string;
  startLine?: number;
  startColumn?: number;
}

function packageType(file: string): string | undefined {
  for (let dir = dirname(file); ; dir = dirname(dir)) {
    try {
      return (JSON.parse(readFileSync(join(dir, 'package.json'), 'utf8')) as { type?: string }).type;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
    if (dir === dirname(dir)) return undefined;
  }
}

function formatOf(file: string): 'module' | 'commonjs' {
  if (file.endsWith('.mts')) return 'module';
  return file.endsWith('.cts') || packageType(file) === 'commonjs' ? 'commonjs' : 'module';
}

function strip(source: string, file: string, isModule: boolean): string {
  try {
    return transformSync(source, { mode: 'strip-only', module: isModule, filename: file }).code;
  } catch (thrown) {
    const { message, snippet = '', startLine = 1, startColumn = 0 } = thrown as StripError;
    throw new SyntaxError(`${file}:${startLine}:${startColumn + 1}: ${message}\n${snippet}`);
  }
}

export const load: LoadHook = (url, context, nextLoad) => {
  const path = url.split(/[?#]/, 1)[0];
  if (!path.startsWith('file:') || !/\.[cm]?ts$/.test(path) || path.includes('/node_modules/')) return nextLoad(url, context);
  const file = fileURLToPath(path);
  const format = formatOf(file);
  return { format, source: strip(readFileSync(file, 'utf8'), file, format === 'module'), shortCircuit: true };
};
