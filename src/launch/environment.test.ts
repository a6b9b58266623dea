import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { readEnvironment } from './environment.js';
import { LaunchError } from './errors.js';

const read = (env: Record<string, string>) => {
  const { launcher, rank, size, oneHost, store } = readEnvironment(env);
  return { launcher, rank, size, oneHost, store };
};

const fails = (env: Record<string, string>, words: RegExp) =>
  assert.throws(
    () => readEnvironment(env),
    (error: unknown) => LaunchError.is(error) && error.code === 'LAUNCH_ENVIRONMENT' && words.test(error.message),
  );

const OPENMPI = { OMPI_COMM_WORLD_RANK: '1', OMPI_COMM_WORLD_SIZE: '4', OMPI_COMM_WORLD_LOCAL_SIZE: '4', PMIX_NAMESPACE: '77' };
const MPICH = { PMI_RANK: '2', PMI_SIZE: '3', MPI_LOCALRANKID: '2', MPI_LOCALNRANKS: '3' };
const SLURM = {
  SLURM_PROCID: '1',
  SLURM_NTASKS: '4',
  SLURM_JOB_ID: '9',
  SLURM_STEP_ID: '0',
  SLURM_STEP_NODELIST: 'n1',
  SLURM_STEP_TASKS_PER_NODE: '4',
};
const TWO_NODES = { ...SLURM, SLURM_STEP_NODELIST: 'n[1-2]', SLURM_STEP_TASKS_PER_NODE: '2(x2)' };
const SECRET = { VERBENA_SECRET: '0123456789abcdef' };

describe('the launcher of a process', () => {
  it('is none: a world of one', () => {
    assert.deepEqual(read({}), { launcher: 'single', rank: 0, size: 1, oneHost: true, store: undefined });
  });

  it('is read from the names of each launcher', () => {
    assert.deepEqual(read(OPENMPI), { launcher: 'openmpi', rank: 1, size: 4, oneHost: true, store: undefined });
    assert.deepEqual(read(MPICH), { launcher: 'mpich', rank: 2, size: 3, oneHost: true, store: undefined });
    assert.deepEqual(read(SLURM), { launcher: 'slurm', rank: 1, size: 4, oneHost: true, store: undefined });
    assert.deepEqual(read({ RANK: '1', WORLD_SIZE: '2', LOCAL_WORLD_SIZE: '2', MASTER_ADDR: 'localhost', MASTER_PORT: '1234' }), {
      launcher: 'torchrun',
      rank: 1,
      size: 2,
      oneHost: true,
      store: { host: 'localhost', port: 1234 },
    });
    assert.deepEqual(read({ JOB_COMPLETION_INDEX: '3', VERBENA_SIZE: '4', VERBENA_STORE: 'job-0.ranks:29500', ...SECRET }), {
      launcher: 'kubernetes',
      rank: 3,
      size: 4,
      oneHost: false,
      store: { host: 'job-0.ranks', port: 29_500 },
    });
  });

  it('is Open MPI or MPICH when they run inside a Slurm allocation, and Slurm when srun also sets PMI names', () => {
    assert.equal(read({ ...SLURM, ...OPENMPI }).launcher, 'openmpi');
    assert.equal(read({ ...SLURM, ...MPICH }).launcher, 'mpich');
    assert.equal(read({ ...SLURM, PMI_RANK: '1', PMI_SIZE: '4' }).launcher, 'slurm');
  });

  it('is not Slurm in a batch script, which is no task of a step', () => {
    const { SLURM_STEP_ID: _, ...batch } = SLURM;
    assert.equal(read(batch).launcher, 'single');
  });

  it('names the first node of a Slurm step on several, and all ranks compute the same port', () => {
    const { store, oneHost } = read({ ...TWO_NODES, ...SECRET });
    assert.equal(oneHost, false);
    assert.equal(store?.host, 'n1');
    assert.deepEqual(store, read({ ...TWO_NODES, ...SECRET, SLURM_PROCID: '3' }).store);
    assert.ok(store.port >= 20_000 && store.port < 30_000);
  });

  it('takes VERBENA_STORE over everything, IPv6 included', () => {
    assert.deepEqual(read({ ...TWO_NODES, ...SECRET, VERBENA_STORE: '[fd00::1]:5' }).store, { host: 'fd00::1', port: 5 });
  });
});

describe('variables that make no sense', () => {
  it('are named, with what to do', () => {
    fails({ VERBENA_RANK: '1' }, /VERBENA_SIZE/);
    fails({ ...OPENMPI, OMPI_COMM_WORLD_RANK: 'x' }, /OMPI_COMM_WORLD_RANK=x/);
    fails({ ...OPENMPI, OMPI_COMM_WORLD_RANK: '4' }, /world of 4: ranks are 0 to 3/);
    fails({ JOB_COMPLETION_INDEX: '0' }, /VERBENA_SIZE/);
    fails({ ...OPENMPI, VERBENA_STORE: 'a:b:c' }, /VERBENA_STORE=a:b:c.*host:port/);
    fails({ ...SLURM, SLURM_STEP_NODELIST: 'n[1' }, /n\[1/);
  });

  it('several hosts without an address or without a secret are refused', () => {
    fails({ ...OPENMPI, OMPI_COMM_WORLD_LOCAL_SIZE: '2' }, /VERBENA_STORE/);
    fails({ ...OPENMPI, OMPI_COMM_WORLD_LOCAL_SIZE: '2', VERBENA_STORE: 'a:1' }, /VERBENA_SECRET/);
    fails(TWO_NODES, /VERBENA_SECRET/);
  });
});
