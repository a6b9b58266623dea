import { verbsConformance } from '../../../../conformance/verbs.js';
import { SimFabric } from './fabric.js';

const SKIP = [
  {
    reason: 'only native code can pin an ordinary ArrayBuffer, or tell WebAssembly memory from it',
    tests: [
      'memory: a registered buffer cannot be transferred away',
      'memory: detached, resizable and WebAssembly buffers are refused',
    ],
  },
];

const fabric = new SimFabric({ clock: 'virtual' });

verbsConformance({
  name: 'sim, virtual time',
  open: async (options) => fabric.open(options),
  advance: (microseconds) => fabric.advance(microseconds * 1000),
  nowUs: () => fabric.nowNs / 1000,
  skip: SKIP,
});

const real = new SimFabric({ mtu: 1024 });

verbsConformance({
  name: 'sim, real time',
  open: async (options) => real.open(options),
  scale: 0.1,
  skip: [
    ...SKIP,
    {
      reason: 'a UC WRITE completes when it has left, and the test looks at the target in the same moment',
      tests: ['transfers: UC RDMA_WRITE moves sizes 0, 1, 7, 64, 4095 and 1 MiB at odd and even offsets'],
    },
  ],
});
