/** `verbena run`: N ranks of a script on this machine. */

import { constants } from 'node:os';
import { startJob } from '../../../launch/launcher/job.js';
import { SERVICE_VARIABLE } from '../../../launch/typescript/answer.js';
import { serveStripper } from '../../../launch/typescript/service.js';
import { typescriptExecArgv } from '../../../launch/typescript/typescript.js';
import { defineCommand, UsageError } from '../../command.js';
import { directoryOutput, prefixedOutput } from './output.js';
import { forwarded, parseHosts, parseRestart, parseVariables, parseVirtualHosts, sizeOf } from './run-options.js';
import { findScript } from './script.js';

/** Passed on to the ranks. SIGUSR1 is not: node opens its debugger on it. */
const FORWARDED = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR2'] as const;

export const run = defineCommand({
  name: 'run',
  summary: 'starts N ranks of a script, here or on other hosts',
  description:
    'The script calls init() of verbena/launch to find the others; TypeScript runs as it is. Lines of output carry the rank. stdin goes to rank 0; ' +
    'signals go to all. When a rank fails, it is named with its last lines, the others are ended, and the exit code is its exit code. Nothing is left behind, ' +
    'even when the launcher is killed. Under mpirun, srun, torchrun or Kubernetes use verbena exec.',
  positionals: [{ name: 'script', summary: 'a .ts or .js file, and its arguments', required: true, rest: true }],
  options: {
    ranks: { type: 'integer', short: 'n', summary: 'how many ranks', min: 1, max: 4096, value: 'N' },
    env: { type: 'list', summary: 'a variable for the ranks, NAME=VALUE; may be given again', value: 'K=V' },
    timeout: { type: 'number', summary: 'seconds after which the job is ended; 0: never', default: 0, min: 0, value: 'S' },
    restart: {
      type: 'string',
      summary: 'never, or on-failure:K to start the job again up to K times',
      default: 'never',
      value: 'WHEN',
    },
    engine: {
      type: 'choice',
      choices: ['auto', 'verbs', 'ucx'],
      summary: 'what carries messages between ranks: the provider that fits each pair, or UCX for all',
      default: 'auto',
    },
    bind: { type: 'choice', choices: ['core', 'numa', 'none'], summary: 'CPUs that a rank may use', default: 'none' },
    grace: { type: 'number', summary: 'seconds between SIGTERM and SIGKILL', default: 5, min: 0, value: 'S' },
    'output-dir': { type: 'string', summary: 'one file of output for each rank, instead of the terminal', value: 'DIR' },
    'virtual-hosts': { type: 'string', summary: 'ranks behave as if on separate hosts: 2x2, or 3,1', value: 'HxR' },
    hosts: { type: 'list', summary: 'ranks on other hosts, by ssh: a:2,b:2', value: 'HOST:RANKS' },
    'keep-going': { type: 'flag', summary: 'the other ranks go on when one fails' },
    port: {
      type: 'integer',
      summary: 'port of the rendezvous store on 127.0.0.1; 0: any free one',
      default: 0,
      min: 0,
      max: 65_535,
    },
  },
  examples: [
    { line: 'verbena run -n 4 train.ts --epochs 3', note: 'Four ranks; --epochs 3 is for the script.' },
    { line: 'verbena run --hosts a:2,b:2 train.ts', note: 'Two ranks on each of two hosts, started by ssh.' },
    { line: 'verbena run --virtual-hosts 2x2 train.ts', note: 'Four ranks that behave as two hosts of two.' },
    {
      line: 'verbena run -n 2 --restart on-failure:3 --timeout 600 job.ts',
      note: 'Starts again when a rank fails; ten minutes at most.',
    },
  ],
  async run({ options, positionals, json, style, screen, progress }) {
    const script = findScript(positionals[0]);
    const virtualHosts = options['virtual-hosts'] === undefined ? undefined : parseVirtualHosts(options['virtual-hosts']);
    const hosts = options.hosts === undefined ? undefined : parseHosts(options.hosts);
    if (hosts && virtualHosts) throw new UsageError('--hosts and --virtual-hosts exclude each other');
    const size = sizeOf(options.ranks, hosts?.map(({ ranks }) => ranks) ?? virtualHosts);
    const variables = parseVariables(options.env ?? []);
    const engine: Record<string, string> = options.engine === 'auto' ? {} : { VERBENA_ENGINE: options.engine };
    const reserved = Object.keys(variables).find((name) => /^VERBENA_(RANK|SIZE|STORE|SECRET|JOB|LAUNCHER_PIPE)$/.test(name));
    if (reserved) throw new UsageError(`--env ${reserved}: verbena run sets it itself`);
    const directory = options['output-dir'];
    const out = json ? progress : (line: string) => screen(`${line}\n`);
    const output =
      directory === undefined ? prefixedOutput(size, style, out, progress) : directoryOutput(directory, size, progress);
    // The hooks that strip types cost every rank a thread: only where they are needed, and with one stripper for all.
    const hooks = /\.[cm]?ts$/.test(script) ? typescriptExecArgv() : [];
    const stripper = hooks.length > 0 ? await serveStripper() : undefined;
    const job = startJob({
      size,
      script,
      args: positionals.slice(1),
      execArgv: hooks,
      cwd: process.cwd(),
      env: { ...process.env, ...engine, ...variables, [SERVICE_VARIABLE]: stripper?.name },
      timeoutMs: options.timeout * 1000,
      restarts: parseRestart(options.restart),
      binding: options.bind,
      graceMs: options.grace * 1000,
      virtualHosts,
      hosts,
      remoteEnv: { ...forwarded(process.env), ...engine, ...variables },
      interface: process.env['VERBENA_INTERFACE'],
      keepGoing: options['keep-going'],
      port: options.port,
      stdin: process.stdin,
      takeLine: output.line,
      tell: (line) => progress(`verbena: ${line}`),
    });
    const forward = (signal: NodeJS.Signals) => job.signal(signal, 128 + constants.signals[signal]);
    for (const signal of FORWARDED) process.on(signal, forward);
    try {
      const result = await job.result;
      return { document: result, text: '', exitCode: result.exitCode };
    } finally {
      for (const signal of FORWARDED) process.off(signal, forward);
      process.stdin.destroy();
      output.close();
      stripper?.close();
    }
  },
});
