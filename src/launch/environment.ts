/**
 * Who started this process, and what it was told: rank, size, where the others are. Pure: variables in, a value out.
 *
 * Every launcher has names of its own; docs/running.md lists them. The order matters, because one launcher starts another: Open MPI inside a
 * Slurm allocation leaves Slurm's variables of its daemon in the ranks, and `srun --mpi=pmi2` sets MPICH's.
 */

import { createHash } from 'node:crypto';
import { LaunchError } from './errors.js';
import { countTasks, expandNodes } from './slurm-names.js';

export type Launcher = 'verbena' | 'torchrun' | 'openmpi' | 'mpich' | 'slurm' | 'kubernetes' | 'single';

/** What the launcher's variables say. */
export interface LaunchEnvironment {
  readonly launcher: Launcher;
  readonly rank: number;
  readonly size: number;
  /** The launcher says that all ranks are on this host; undefined: it does not say. */
  readonly oneHost: boolean | undefined;
  /** Where the coordinator listens; undefined: the ranks of one host meet by `job`. */
  readonly store: { readonly host: string; readonly port: number } | undefined;
  readonly secret: string | undefined;
  /** Tells this job from others on the host; '' where the launcher names none. */
  readonly job: string;
  /** The variable that carries the rank. */
  readonly rankVariable: string;
  readonly virtualHost: number | undefined;
  /** How often the job was started again after a failure. */
  readonly restart: number;
}

type Variables = Readonly<Record<string, string | undefined>>;

/** torchrun's default. */
const MASTER_PORT = 29_500;

function whole(env: Variables, name: string, min: number): number | undefined {
  const text = env[name];
  if (text === undefined || text === '') return undefined;
  const value = Number(text);
  if (!Number.isInteger(value) || value < min) {
    throw new LaunchError(
      'LAUNCH_ENVIRONMENT',
      `${name}=${text} must be a whole number of ${min} or more: correct it where the job is started`,
    );
  }
  return value;
}

/** A variable that must be there because another one is. */
function needed(env: Variables, name: string, because: string, min: number): number {
  const value = whole(env, name, min);
  if (value === undefined) {
    throw new LaunchError(
      'LAUNCH_ENVIRONMENT',
      `${because} is set and ${name} is not: a rank needs both. Start it with verbena run, mpirun, srun or torchrun, or set both by hand.`,
    );
  }
  return value;
}

function parseAddress(name: string, text: string, defaultPort: number): { host: string; port: number } {
  const match = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d+))?$/.exec(text);
  const port = match?.[3] === undefined ? defaultPort : Number(match[3]);
  if (!match || port < 1 || port > 65_535) {
    throw new LaunchError(
      'LAUNCH_ENVIRONMENT',
      `${name}=${text} is no address: write host:port, as in node1:29500 or [fd00::1]:29500`,
    );
  }
  return { host: match[1] ?? match[2], port };
}

/** Where the variables say that the coordinator listens. @throws LAUNCH_ENVIRONMENT */
export function storeOf(env: Variables): LaunchEnvironment['store'] {
  if (env['VERBENA_STORE']) return parseAddress('VERBENA_STORE', env['VERBENA_STORE'], MASTER_PORT);
  if (env['MASTER_ADDR']) {
    return { host: env['MASTER_ADDR'], port: whole(env, 'MASTER_PORT', 1) ?? MASTER_PORT };
  }
  return undefined;
}

/** What the launchers differ in. */
type Found = Pick<LaunchEnvironment, 'launcher' | 'rank' | 'size' | 'oneHost' | 'job' | 'rankVariable'> &
  Partial<Pick<LaunchEnvironment, 'store'>>;

function local(size: number, localSize: number | undefined): boolean | undefined {
  return localSize === undefined ? undefined : localSize >= size;
}

function slurm(env: Variables): Found {
  const size = env['SLURM_STEP_NUM_TASKS']
    ? needed(env, 'SLURM_STEP_NUM_TASKS', '', 1)
    : needed(env, 'SLURM_NTASKS', 'SLURM_PROCID', 1);
  const nodes = expandNodes(env['SLURM_STEP_NODELIST'] ?? env['SLURM_NODELIST'] ?? '');
  const job = `slurm-${env['SLURM_JOB_ID']}.${env['SLURM_STEP_ID']}`;
  const perNode = countTasks(env['SLURM_STEP_TASKS_PER_NODE'] ?? '');
  const oneHost = nodes.length === 0 ? local(size, perNode[0]) : nodes.length === 1;
  const store = oneHost ? undefined : { host: nodes[0], port: jobPort(job) };
  return {
    launcher: 'slurm',
    rank: needed(env, 'SLURM_PROCID', 'SLURM_STEP_ID', 0),
    size,
    oneHost,
    job,
    store,
    rankVariable: 'SLURM_PROCID',
  };
}

/** A port that all ranks of a job compute alike, outside the range that the kernel hands out by default. */
function jobPort(job: string): number {
  return 20_000 + (createHash('sha256').update(job).digest().readUInt32LE(0) % 10_000);
}

function find(env: Variables): Found | undefined {
  if (env['VERBENA_RANK'] !== undefined) {
    const size = needed(env, 'VERBENA_SIZE', 'VERBENA_RANK', 1);
    const oneHost = local(size, whole(env, 'VERBENA_LOCAL_SIZE', 1));
    return {
      launcher: 'verbena',
      rank: needed(env, 'VERBENA_RANK', '', 0),
      size,
      oneHost,
      job: env['VERBENA_JOB'] ?? '',
      rankVariable: 'VERBENA_RANK',
    };
  }
  if (env['RANK'] !== undefined && env['WORLD_SIZE'] !== undefined) {
    const size = needed(env, 'WORLD_SIZE', 'RANK', 1);
    const job = env['TORCHELASTIC_RUN_ID'] ?? `${env['MASTER_ADDR'] ?? ''}:${env['MASTER_PORT'] ?? ''}`;
    const oneHost = local(size, whole(env, 'LOCAL_WORLD_SIZE', 1));
    return {
      launcher: 'torchrun',
      rank: needed(env, 'RANK', 'WORLD_SIZE', 0),
      size,
      oneHost,
      job: `torchrun-${job}`,
      rankVariable: 'RANK',
    };
  }
  if (env['OMPI_COMM_WORLD_RANK'] !== undefined) {
    const size = needed(env, 'OMPI_COMM_WORLD_SIZE', 'OMPI_COMM_WORLD_RANK', 1);
    const job = env['PMIX_NAMESPACE'] ?? env['OMPI_MCA_ess_base_jobid'];
    const rank = needed(env, 'OMPI_COMM_WORLD_RANK', '', 0);
    const oneHost = local(size, whole(env, 'OMPI_COMM_WORLD_LOCAL_SIZE', 1));
    return { launcher: 'openmpi', rank, size, oneHost, job: job ? `openmpi-${job}` : '', rankVariable: 'OMPI_COMM_WORLD_RANK' };
  }
  if (env['PMI_RANK'] !== undefined && (env['MPI_LOCALRANKID'] !== undefined || env['SLURM_STEP_ID'] === undefined)) {
    const size = needed(env, 'PMI_SIZE', 'PMI_RANK', 1);
    const oneHost = local(size, whole(env, 'MPI_LOCALNRANKS', 1));
    return { launcher: 'mpich', rank: needed(env, 'PMI_RANK', '', 0), size, oneHost, job: '', rankVariable: 'PMI_RANK' };
  }
  // A batch script has SLURM_PROCID as well, but is no task of a step.
  if (env['SLURM_PROCID'] !== undefined && env['SLURM_STEP_ID'] !== undefined) return slurm(env);
  if (env['JOB_COMPLETION_INDEX'] !== undefined) {
    const size = needed(env, 'VERBENA_SIZE', 'JOB_COMPLETION_INDEX', 1);
    const rank = needed(env, 'JOB_COMPLETION_INDEX', '', 0);
    return { launcher: 'kubernetes', rank, size, oneHost: size === 1, job: '', rankVariable: 'JOB_COMPLETION_INDEX' };
  }
  return undefined;
}

/**
 * Reads the variables.
 * @param handedSecret what the launcher handed over by another way; default: the secret is VERBENA_SECRET
 * @throws LAUNCH_ENVIRONMENT with the variable that is missing or wrong
 */
export function readEnvironment(env: Variables = process.env, handedSecret?: string): LaunchEnvironment {
  const secret = handedSecret ?? (env['VERBENA_SECRET'] || undefined);
  const virtualHost = whole(env, 'VERBENA_VIRTUAL_HOST', 0);
  const restart = whole(env, 'VERBENA_RESTART', 0) ?? 0;
  const found = find(env);
  if (!found) {
    return {
      launcher: 'single',
      rank: 0,
      size: 1,
      oneHost: true,
      store: undefined,
      secret,
      job: '',
      rankVariable: '',
      virtualHost,
      restart,
    };
  }
  if (found.rank >= found.size) {
    throw new LaunchError(
      'LAUNCH_ENVIRONMENT',
      `${found.rankVariable}=${found.rank} does not fit a world of ${found.size}: ranks are 0 to ${found.size - 1}. Correct rank or size where the job is started.`,
    );
  }
  const result = { ...found, store: storeOf(env) ?? found.store, secret, virtualHost, restart };
  checkMeeting(result);
  return result;
}

/** Whether these ranks can find each other. */
function checkMeeting({ launcher, oneHost, store, secret, size }: LaunchEnvironment): void {
  if (oneHost || size === 1) return;
  if (!store) {
    throw new LaunchError(
      'LAUNCH_ENVIRONMENT',
      `this job has ranks on several hosts (started by ${launcher}), and nothing says where rank 0 is: export VERBENA_STORE=host-of-rank-0:29500, or ` +
        'MASTER_ADDR and MASTER_PORT, in every rank (mpirun -x VERBENA_STORE, mpiexec.hydra -genv).',
    );
  }
  if (!secret) {
    throw new LaunchError(
      'LAUNCH_ENVIRONMENT',
      'ranks on several hosts need a secret that only this job knows: export VERBENA_SECRET=$(head -c 32 /dev/urandom | od -An -tx1 | tr -d " \\n") before ' +
        'mpirun -x VERBENA_SECRET or srun; with Kubernetes take it from a Secret (deploy/kubernetes). Do not put it on a command line.',
    );
  }
}
