/** Tests of the verbs suite that the kernel's rdma_rxe (Linux 6.1) cannot pass, each with the reason. */

export const RXE_SKIPS: readonly { readonly reason: string; readonly tests: readonly string[] }[] = [
  {
    reason: 'rdma_rxe carries messages of at most 8 MiB, and says so',
    tests: ['objects: a device says who it is and what it can do'],
  },
  {
    reason: 'rdma_rxe knows SQD by name only: it completes nothing that was posted there when RTS comes',
    tests: ['life cycle: SQD finishes what was started, says SQ_DRAINED, holds new sends back, and RTS lets them go'],
  },
  {
    reason: 'Linux before 6.2 pins only memory that may be written',
    tests: ['memory: a file is memory: peers read it, and writes of peers reach the file'],
  },
  {
    reason: 'rdma_rxe says CQ_ERR and leaves the queue pair in RTS',
    tests: ['completions: an overrun of the send side is an event, and poll says so'],
  },
  {
    reason: 'rdma_rxe has no QP_LAST_WQE_REACHED event',
    tests: ['shared receive queues: an error of one queue pair leaves the requests to the others, and says QP_LAST_WQE_REACHED'],
  },
  {
    reason: 'rdma_rxe answers a message that is too long for a shared request with REM_OP_ERR',
    tests: [
      'shared receive queues: a message too long for a shared request is LOC_LEN_ERR here and REM_INV_REQ_ERR there, and spares the other pairs',
    ],
  },
  {
    reason: 'rdma_rxe has no SQE state, and calls a bad local key LOC_QP_OP_ERR',
    tests: ['datagrams: a failed send stops the send queue alone: SQE, later sends flush, receives go on, RTS resumes'],
  },
];
