/** Runs the `verbena` command as a user does, in a process of its own, with a watchdog. */

import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('../../../bin/verbena.js', import.meta.url));

export interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** @param timeoutMs after this the process is killed and `code` is null. */
export function verbena(args: readonly string[], timeoutMs = 100_000): Promise<Ran> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [PROGRAM, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: timeoutMs,
      killSignal: 'SIGKILL',
    });
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (chunk) => {
      stdout += chunk;
    });
    child.stderr.on('data', (chunk) => {
      stderr += chunk;
    });
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, stdout, stderr }));
  });
}

/** Runs with `--json` and returns the document. Throws when stdout is not one JSON document, or the exit code is not 0. */
export async function verbenaJson<T>(args: readonly string[]): Promise<T> {
  const { code, stdout, stderr } = await verbena([...args, '--json']);
  if (code !== 0) throw new Error(`verbena ${args.join(' ')} ended with ${code}: ${stdout}${stderr}`);
  return JSON.parse(stdout) as T;
}
