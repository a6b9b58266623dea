/**
 * `npm run test:interop`: tests against other systems (test/interop/). As root on Debian or Ubuntu what they need is installed first; elsewhere a test whose
 * other side is missing is skipped and says why.
 */
import { setup } from './setup.mjs';
import { ensureCommands, ensureFiles } from './system-packages.mjs';
import { runTests, testFiles } from './test-files.mjs';

const COMMANDS = {
  cc: 'gcc libc6-dev',
  ip: 'iproute2',
  tshark: 'tshark',
  sshd: 'openssh-server openssh-client',
  'mpirun.openmpi': 'openmpi-bin',
  'mpirun.mpich': 'mpich',
  slurmctld: 'slurm-wlm',
  munged: 'munge',
  ib_write_bw: 'perftest',
  rping: 'rdmacm-utils',
  ibv_rc_pingpong: 'ibverbs-utils ibverbs-providers rdma-core',
};
/** What the optional addons are compiled with. */
const HEADERS = {
  '/usr/include/infiniband/verbs.h': 'libibverbs-dev',
  '/usr/include/rdma/rdma_cma.h': 'librdmacm-dev',
  '/usr/include/ucp/api/ucp.h': 'libucx-dev',
};

const files = testFiles(['test/interop'], process.argv[2]);
await setup();
ensureCommands(COMMANDS);
ensureFiles(HEADERS);
process.exitCode = files.length > 0 && runTests('Interop tests', files, { concurrency: 1, timeoutMs: 600_000 }) ? 0 : 1;
