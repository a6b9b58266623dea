/*
 * The usual packets of a reliable connection, carried out in C: SEND and WRITE in sequence, with or without immediate data, and their
 * acknowledges. The rules are those of src/verbs/transport/rc-requester.ts and rc-responder.ts, which remain their definition: whatever is not
 * usual (loss, NAKs, READs, atomics, errors, draining, shared receive queues) is left to them, untouched.
 *
 * Both work on the same state: numbers of 8 bytes in shared memory, in the order in which RcEndpoint.copyState puts them down.
 *
 *   receive ──> 1 it is done    0 the packet is for the TypeScript machine         next ──> length, 0 nothing to send, -1 that machine knows
 *
 * A queue pair is drawn as one struct of fields of 8 bytes, which src/verbs/providers/roce/fast-path.ts fills in this order.
 */
#ifndef VERBENA_RC_FAST_H
#define VERBENA_RC_FAST_H

#include <stdint.h>

/* Places in the state. VERSION grows with every change; OWNED is 1 while the TypeScript machine is in the middle of something. */
enum {
  S_VERSION, S_OWNED, S_OVERTAKEN, S_OWES_CNP, S_NEXT_CNP,
  S_DEADLINE, S_WINDOW, S_ALLOWED, S_ACKED_SINCE, S_STATE, S_UNA, S_CURSOR_PSN, S_MAX_SENT, S_NEXT_PSN, S_CURSOR, S_ASSIGNED, S_READS,
  S_RETRIES, S_RNR_RETRIES, S_RNR_UNTIL, S_GONE_BACK, S_ASKS_ACK, S_SINCE_ACK, S_DRAIN_END,
  S_READY, S_EXPECTED, S_MSN, S_NAKED, S_REPLY_SYNDROME, S_FATAL_SYNDROME, S_REPLY_PSN, S_RESOURCE_AT, S_PENDING_RESOURCES,
  S_HAS_WORK, S_KIND, S_PLACED, S_ADDRESS, S_KEY, S_TOTAL,
  S_WORK_ID, S_WORK_LENGTH, S_WORK_SGES, S_WORK_SGE
};

/* What is counted, as numbers; MUST_RING: somebody sleeps on a completion queue that has got an entry. */
enum {
  C_PACKETS_SENT, C_PACKETS_RECEIVED, C_BYTES_SENT, C_BYTES_RECEIVED, C_RETRANSMITTED, C_OPERATIONS, C_BYTES,
  C_SYSTEM_CALLS, C_SEND_ERRORS, C_TOO_LONG, C_MUST_RING, C_COUNT
};

/* Registered memory, by the upper 24 bits of the key. data is 0 where memory is not in one piece. */
typedef struct fast_region {
  double key, domain, access, address, length, data;
} fast_region;

/* A completion queue, as src/verbs/providers/roce/completion-ring.ts draws it. */
typedef struct fast_ring {
  int32_t *control;
  double *id;
  uint32_t *byte_length, *immediate, *qp_num, *source_qp, *epoch;
  uint8_t *status, *opcode, *flags;
  uint64_t mask, depth;
} fast_ring;

typedef struct fast_qp {
  double *state;
  uint64_t slot, qp_num, dest_qp, epoch, domain, mtu, access, timeout_ns, retry_count, rnr_retry, partition_key;
  uint64_t peer_port, peer_address[2];
  struct {
    int32_t *control;
    double *id, *remote_address, *sge_address;
    uint32_t *remote_key, *immediate, *length, *first_psn, *packets, *sge_length, *sge_key;
    uint8_t *opcode, *flags, *sge_count, *is_inline, *inline_bytes;
    uint64_t mask, max_sge, max_inline;
  } send;
  /* control is NULL when the queue is shared. */
  struct {
    int32_t *control;
    double *id, *sge_address;
    uint32_t *sge_length, *sge_key;
    uint8_t *sge_count;
    uint64_t mask, max_sge;
  } receive;
  fast_ring send_cq, receive_cq;
} fast_qp;

/* What all queue pairs of a thread share. */
typedef struct fast_memory {
  const fast_region *regions;
  uint64_t region_count;
  double *counters;
} fast_memory;

/* Takes a packet, from the BTH to the padding, that is known to be intact and from the peer. */
int rc_fast_receive(const fast_memory *m, fast_qp *q, const uint8_t *packet, uint32_t length, double now_ns);
/* Makes the next packet, from the BTH to the padding. */
int rc_fast_next(const fast_memory *m, fast_qp *q, uint8_t *out, double now_ns);

#endif
