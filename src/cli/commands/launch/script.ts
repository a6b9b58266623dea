/** The script that `run` and `exec` are given: there, a file, and something node can run. */

import { readdirSync, statSync } from 'node:fs';
import { basename, dirname, extname, resolve } from 'node:path';
import { LaunchError } from '../../../launch/errors.js';
import { nearest } from '../../../native/nearest.js';

const RUNNABLE = ['.ts', '.mts', '.cts', '.js', '.mjs', '.cjs'];

/** The absolute path. @throws LAUNCH_NO_SCRIPT with what is near. */
export function findScript(given: string, cwd = process.cwd()): string {
  const path = resolve(cwd, given);
  const found = statSync(path, { throwIfNoEntry: false });
  if (!found) {
    let names: string[] = [];
    try {
      names = readdirSync(dirname(path)).filter((name) => RUNNABLE.includes(extname(name)));
    } catch {
      // The folder is not there either.
    }
    const near = nearest(basename(path), names);
    const advice = near ? ` Did you mean ${near}?` : names.length > 0 ? ` That folder has ${names.slice(0, 8).join(', ')}.` : '';
    throw new LaunchError(
      'LAUNCH_NO_SCRIPT',
      `there is no script ${given} (looked for ${path}).${advice} The path is relative to the current directory.`,
    );
  }
  if (!found.isFile()) {
    throw new LaunchError(
      'LAUNCH_NO_SCRIPT',
      `${given} is not a file: name the script itself, as in ${given.replace(/\/$/, '')}/main.ts`,
    );
  }
  if (!RUNNABLE.includes(extname(path))) {
    throw new LaunchError('LAUNCH_NO_SCRIPT', `${given} is nothing node can run: scripts end in ${RUNNABLE.join(', ')}`);
  }
  return path;
}
