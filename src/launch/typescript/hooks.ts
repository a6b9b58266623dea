/**
 * The module hook behind typescript.ts; Node runs it in its loader thread. A .ts file is read, stripped and handed on as an ES
 * module, or as CommonJS when it is .cts or the nearest package.json says `"type": "commonjs"`.
 *
 * The stripper is loaded when the first .ts file is: it takes 20 MB. Ranks of `verbena run` have theirs in the launcher instead (VERBENA_TYPESCRIPT_SERVICE),
 * one for all.
 */
import { readFileSync } from 'node:fs';
import type { LoadHook } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { SERVICE_VARIABLE, type StripAnswer } from './answer.js';

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

/** By the launcher's stripper where there is one and it answers, otherwise by one of this process. */
async function stripped(source: string, isModule: boolean): Promise<StripAnswer> {
  const service = process.env[SERVICE_VARIABLE];
  if (service !== undefined) {
    const { askStripper } = await import('./service.js');
    const answer = await askStripper(service, { source, isModule });
    if (answer) return answer;
  }
  const { stripTypes } = await import('./strip.js');
  return stripTypes(source, isModule);
}

async function strip(source: string, file: string, isModule: boolean): Promise<string> {
  const answer = await stripped(source, isModule);
  if ('code' in answer) return answer.code;
  const { message, snippet = '', startLine = 1, startColumn = 0 } = answer.error;
  throw new SyntaxError(`${file}:${startLine}:${startColumn + 1}: ${message}\n${snippet}`);
}

export const load: LoadHook = async (url, context, nextLoad) => {
  const path = url.split(/[?#]/, 1)[0];
  if (!path.startsWith('file:') || !/\.[cm]?ts$/.test(path) || path.includes('/node_modules/')) return nextLoad(url, context);
  const file = fileURLToPath(path);
  const format = formatOf(file);
  return { format, source: await strip(readFileSync(file, 'utf8'), file, format === 'module'), shortCircuit: true };
};
