/*
 * The data path of a RoCE device as far as C runs it (rc-fast.h): packets go between the socket and the queue pairs without JavaScript, in
 * order, until one comes that is not usual.
 *
 *   fast_receive ──> takes a batch from the socket ──> fast_continue ──> index of the first packet that is left to JavaScript, or their number
 *   fast_send ──> packets of one queue pair into the batch that is to leave ──> fast_leave ──> to the socket
 */
#ifndef VERBENA_FAST_PATH_H
#define VERBENA_FAST_PATH_H

#include "datagram.h"
#include "rc-fast.h"

enum { FAST_TABLE = 4096 };

/* Numbers that C and JavaScript share, after the counters of rc-fast.h: the time, packets in the last batch, and the slots of queue pairs that may send. */
enum { W_NOW = C_COUNT, W_PACKETS, W_READY_COUNT, W_READY };

/* Fields of 8 bytes, which src/verbs/providers/roce/fast-path.ts fills in this order. */
typedef struct fast_path {
  fast_memory memory;
  datagram *socket;
  uint8_t *rx;
  uint32_t *rx_descriptors;
  uint8_t *tx;
  uint32_t *tx_descriptors;
  /* Queue pairs by the lower bits of their number; 0 where there is none. */
  fast_qp **table;
} fast_path;

/* Both return the index of the packet that JavaScript has to look at; W_PACKETS: none. fast_receive returns -errno, too. */
int fast_receive(fast_path *p, int messages);
int fast_continue(fast_path *p, int from);

/* Puts at most `limit` packets behind the `*count` that are in the batch. 0: there are no more; 1: there may be; -1: JavaScript knows. */
int fast_send(fast_path *p, fast_qp *q, int limit, int *count);
/* Hands a batch to the kernel. What it does not take is lost, as on any network; the transport sends it again. */
void fast_leave(fast_path *p, int count);

#endif
