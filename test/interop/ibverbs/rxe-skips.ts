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
  {
    reason: 'rdma_rxe has no SQE state, and calls a bad local key LOC_QP_OP_ERR',
    tests: ['unreliable connections: a bad local key is LOC_PROT_ERR and leads to SQE, from where RTS resumes'],
  },
  {
    reason: 'rdma_rxe sends multicast to the wire only: members on the sending host hear nothing',
    tests: [
      'datagrams: a multicast datagram reaches every member of the group once, on every device, and nobody else',
      'datagrams: groups are apart, a queue pair can be in several, and closing it leaves them',
    ],
  },
  {
    reason: 'rdma_rxe calls a bad local key LOC_QP_OP_ERR, and checks a range only as far as a message goes',
    tests: [
      'statuses: LOC_PROT_ERR: a key that nobody has in the list of a SEND, WRITE or READ',
      'statuses: LOC_PROT_ERR: a length beyond the end in the list of a SEND, WRITE or READ',
      'statuses: LOC_PROT_ERR: a key of another protection domain in the list of a SEND, WRITE or READ',
      'statuses: LOC_PROT_ERR: a deregistered key in the list of a SEND, WRITE or READ',
      'statuses: a receive request with a key that nobody has is refused at once, or is LOC_PROT_ERR when its message comes',
      'statuses: a receive request with a range beyond the end is refused at once, or is LOC_PROT_ERR when its message comes',
      'statuses: a receive request with a range before the start is refused at once, or is LOC_PROT_ERR when its message comes',
      'statuses: a receive request with a length beyond the end is refused at once, or is LOC_PROT_ERR when its message comes',
      'statuses: a receive request with a key of another protection domain is refused at once, or is LOC_PROT_ERR when its message comes',
      'statuses: a receive request with a deregistered key is refused at once, or is LOC_PROT_ERR when its message comes',
      'statuses: REM_OP_ERR: the region of a receive request was deregistered; LOC_PROT_ERR for the receiver',
      'statuses: a receive into memory without the right of local write is refused at once, or when its message comes',
    ],
  },
  {
    reason: 'rdma_rxe carries out an atomic before it looks whether its result may be stored',
    tests: ['statuses: a READ or an atomic into memory without the right of local write is LOC_PROT_ERR or LOC_ACCESS_ERR'],
  },
  {
    reason: 'rdma_rxe answers a message that is too long with REM_OP_ERR',
    tests: ['statuses: a message longer than the receive buffer: LOC_LEN_ERR there, REM_INV_REQ_ERR here, both in ERR'],
  },
  {
    reason: 'rdma_rxe looks for a receive request before it looks at the key',
    tests: ['statuses: REM_ACCESS_ERR: RDMA_WRITE_WITH_IMM on a region without remoteWrite'],
  },
  {
    reason: 'rdma_rxe raises no event when it refuses a request',
    tests: ['events: an access violation is QP_ACCESS_ERR at the target, with the queue pair and words'],
  },
];
