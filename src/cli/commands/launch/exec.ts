/** `verbena exec`: this process becomes one rank, started by somebody else's launcher. */

import { pathToFileURL } from 'node:url';
import { readEnvironment } from '../../../launch/environment.js';
import { registerTypeScript, typescriptExecArgv } from '../../../launch/typescript/typescript.js';
import { defineCommand } from '../../command.js';
import { findScript } from './script.js';

export const exec = defineCommand({
  name: 'exec',
  summary: 'runs a script as one rank under mpirun, srun, torchrun or Kubernetes',
  description:
    'The launcher starts this command once per rank; rank and size come from its variables, and the script finds the others by init() of verbena/launch. ' +
    'Without a launcher it is a world of one. Ranks on several hosts need VERBENA_SECRET, the same for all. docs/running.md lists the variables.',
  positionals: [{ name: 'script', summary: 'a .ts or .js file, and its arguments', required: true, rest: true }],
  options: {},
  examples: [
    { line: 'mpirun -n 4 verbena exec train.ts', note: 'Open MPI or MPICH places the ranks.' },
    { line: 'srun -n 4 --kill-on-bad-exit=1 verbena exec train.ts', note: 'Slurm does.' },
  ],
  async run({ positionals }) {
    const script = findScript(positionals[0]);
    const { rank, size, launcher } = readEnvironment(); // contradictory variables are an error before the script starts
    await registerTypeScript(script);
    process.execArgv.push(...typescriptExecArgv()); // what the script forks may be TypeScript, too
    process.argv = [process.argv[0], script, ...positionals.slice(1)];
    // From here on this is the script's process: signals mean what they mean to node.
    process.removeAllListeners('SIGINT').removeAllListeners('SIGTERM');
    try {
      await import(pathToFileURL(script).href);
    } catch (error) {
      // As if node ran the script: the stack on stderr, exit code 1, now.
      setImmediate(() => {
        throw error;
      });
      await new Promise(() => {});
    }
    return { document: { rank, size, launcher }, text: '', exitCode: Number(process.exitCode ?? 0) };
  },
});
