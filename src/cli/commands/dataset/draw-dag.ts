/** `verbena draw dag SCRIPT`: the plan of the script's first action. The script runs as a world of one up to there; the action itself does not. */

import { spawn } from 'node:child_process';
import { existsSync, rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { typescriptExecArgv } from '../../../launch/typescript/typescript.js';
import { type Outcome, UsageError } from '../../command.js';
import { findScript } from '../launch/script.js';

/** The engine draws into this file at the first action and ends the process (src/dataset/engine.ts). */
const VARIABLE = 'VERBENA_DRAW_PLAN';

export async function drawDag(given: string | undefined, args: readonly string[], output: string | undefined): Promise<Outcome> {
  if (given === undefined) throw new UsageError('name the script whose plan is to be drawn, as in verbena draw dag job.ts');
  const script = findScript(given);
  const file = output ?? 'plan.svg';
  rmSync(file, { force: true });
  const child = spawn(process.execPath, [...typescriptExecArgv(), script, ...args], {
    env: { ...process.env, [VARIABLE]: resolve(file) },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const code = await new Promise<number | null>((done) => child.on('close', done));
  if (code !== 0 || !existsSync(file)) throw new UsageError(`${given} ended with ${code} and came to no action of a dataset`);
  return { document: { file, script }, text: `the plan of the first action of ${given} is drawn in ${file}` };
}
