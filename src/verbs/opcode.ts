/**
 * Operations, queue pair types and which goes with which.
 *
 * The names are libibverbs' without the prefix (IBV_WR_RDMA_WRITE is 'RDMA_WRITE'). The matrix is the table of
 * ibv_post_send(3) as data, with the DC initiator as mlx5dv defines it (the operations of RC). A cell is legal or not; the
 * suite generates one test for each.
 */

/** Operation of a send work request. */
export type Opcode =
  | 'SEND'
  | 'SEND_WITH_IMM'
  | 'RDMA_WRITE'
  | 'RDMA_WRITE_WITH_IMM'
  | 'RDMA_READ'
  | 'ATOMIC_CMP_AND_SWP'
  | 'ATOMIC_FETCH_AND_ADD';

/**
 * Transport type of a queue pair. RC: reliable, one peer, all operations. UC: unreliable, one peer, no READ and no atomics.
 * UD: datagrams of one MTU to any peer. DCI: the initiator of dynamically connected transport, RC's operations to any number of
 * DC targets. DCT: such a target; it only receives.
 */
export type QpType = 'RC' | 'UC' | 'UD' | 'DCI' | 'DCT';

/** Numeric codes: the position in this list is what typed arrays and shared memory hold. Append only. */
export const OPCODES: readonly Opcode[] = [
  'SEND',
  'SEND_WITH_IMM',
  'RDMA_WRITE',
  'RDMA_WRITE_WITH_IMM',
  'RDMA_READ',
  'ATOMIC_CMP_AND_SWP',
  'ATOMIC_FETCH_AND_ADD',
];

/** Numeric codes of queue pair types, as in OPCODES. */
export const QP_TYPES: readonly QpType[] = ['RC', 'UC', 'UD', 'DCI', 'DCT'];

/** The opcode x type matrix of ibv_post_send(3): the types that carry each operation. */
export const LEGAL_TYPES: Readonly<Record<Opcode, readonly QpType[]>> = {
  SEND: ['RC', 'UC', 'UD', 'DCI'],
  SEND_WITH_IMM: ['RC', 'UC', 'UD', 'DCI'],
  RDMA_WRITE: ['RC', 'UC', 'DCI'],
  RDMA_WRITE_WITH_IMM: ['RC', 'UC', 'DCI'],
  RDMA_READ: ['RC', 'DCI'],
  ATOMIC_CMP_AND_SWP: ['RC', 'DCI'],
  ATOMIC_FETCH_AND_ADD: ['RC', 'DCI'],
};

/** Whether a queue pair of this type may carry this operation. */
export function isLegalOpcode(type: QpType, opcode: Opcode): boolean {
  return LEGAL_TYPES[opcode]?.includes(type) ?? false;
}

/** Numeric code of an operation. */
export function opcodeOf(opcode: Opcode): number {
  return OPCODES.indexOf(opcode);
}

/** What a completion is of: a send-side operation, or one of the two receive kinds (IBV_WC_RECV, IBV_WC_RECV_RDMA_WITH_IMM). */
export type CompletionOpcode = Opcode | 'RECV' | 'RECV_RDMA_WITH_IMM';

/** Numeric codes of completion opcodes: OPCODES first, then the two receive kinds. */
export const COMPLETION_OPCODES: readonly CompletionOpcode[] = [...OPCODES, 'RECV', 'RECV_RDMA_WITH_IMM'];

/** Opcode of a completion: a SEND was received. */
export const WC_RECV = OPCODES.length;
/** Opcode of a completion: a WRITE with immediate data came in. */
export const WC_RECV_RDMA_WITH_IMM = OPCODES.length + 1;
