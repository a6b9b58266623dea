/*
 * Collectives among processes of one host: the executor of encoded schedules on shared memory.
 *
 * Every rank owns a control segment (a memfd) that all others map:
 *
 *   head      broken, finished, sleeping, bell      table of regions: memory of this rank that peers may map (descriptor, inode, range)
 *   slots     two of 4 KiB, used in turn: sequence | signature of the call | payload of up to 4,064 bytes
 *   inbox     a line per peer and channel: how many posts, and where the data of the last send lies
 *   acks      a line per peer and channel: how many of our posts that peer has taken
 *
 * A call begins with `enter`: each rank puts its signature (and a small payload) into the slot of this sequence number, then reads everybody
 * else's. So a different call anywhere is seen by all before a byte moves; nobody can be two calls ahead, which is why two slots are enough; and a
 * small all-reduce, broadcast or barrier is already over. Larger ones go on in one of two ways:
 *
 *   direct    all-reduce: rank r combines part r out of all buffers into all buffers, one pass; then everybody waits for everybody.
 *             all-to-all: rank r writes its blocks into all outputs; then everybody waits for everybody.
 *   program   an encoded schedule (src/schedule/encoding.ts). A send posts where its data lies; the receiver copies or reduces from there
 *             and acknowledges.
 *
 * Private memory of a peer is read and written by the kernel where it lies (process_vm_readv, one copy), in blocks that stay in the cache where it is
 * combined. Where that is forbidden, in the first call, and for what is small, it passes through a staging area that peers map.
 *
 * Waiting: a short spin, then yields, then sleep on `bell` (a futex). A sleeper looks for dead processes, broken ranks and its deadline
 * every 20 ms. Once a call has failed in the middle the communicator is broken, and all ranks hear of it through `broken`.
 */
#ifndef VERBENA_COLLECTIVE_H
#define VERBENA_COLLECTIVE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { COLLECTIVE_BUFFERS = 8, COLLECTIVE_SMALL = 4064, COLLECTIVE_CHANNELS = 32, COLLECTIVE_WORDS = 5 };

/* How a call ends. The numbers are shared with src/collectives/shared-memory/call.ts. */
enum {
  CALL_DONE,
  CALL_PEER_LOST, /* culprit: the rank whose process ended */
  CALL_MISMATCH,  /* culprit: the first rank that called something else; theirs: its signature */
  CALL_TIMEOUT,
  CALL_ABORTED, /* culprit: the rank that aborted */
  CALL_CLOSED,  /* culprit: the rank that closed */
  CALL_SYSTEM,  /* culprit: errno */
};
enum { SUBMIT_OVER = -1 };
enum { METHOD_SLOTS, METHOD_DIRECT, METHOD_PROGRAM };
/* Collectives that fit into slots, numbered as in call.ts. */
enum { COLLECTIVE_ALLREDUCE = 0, COLLECTIVE_REDUCE_SCATTER = 2, COLLECTIVE_ALL_GATHER = 3, COLLECTIVE_BROADCAST = 4, COLLECTIVE_REDUCE = 5,
       COLLECTIVE_GATHER = 6, COLLECTIVE_SCATTER = 7, COLLECTIVE_ALL_TO_ALL = 8, COLLECTIVE_SCAN = 10 };

typedef struct collective_buffer {
  uint8_t *address;      /* NULL: scratch */
  uint64_t bytes;
  const double *offsets; /* chunks + 1 element offsets; NULL: even */
  int handle;            /* of collective_share; -1: peers cannot map it */
  int first, window;     /* the chunks it holds */
  int exposed;           /* peers read or write it, or it is sent from */
  int in, out;           /* its contents matter before, after */
} collective_buffer;

typedef struct collective_call {
  int method, collective, op, type, root, divisor;
  int32_t identity;    /* of the algorithm: part of the signature */
  uint64_t count;      /* elements that chunks are cut from */
  const int32_t *program;
  double timeout_ms;   /* 0: none */
  int buffers;
  collective_buffer buffer[COLLECTIVE_BUFFERS];
  /* results */
  int status, culprit;
  int announced; /* this rank has entered already */
  int32_t theirs[COLLECTIVE_WORDS];
  uint64_t bytes_sent, bytes_accessed, messages;
  double *report; /* where the results go as well: status, culprit, the three counters, theirs; NULL: nowhere */
  double *times;  /* when it began, when all ranks had entered, when it ended: milliseconds of CLOCK_MONOTONIC; NULL: not wanted */
} collective_call;

typedef struct collective collective;

/* Makes the control segment of this rank; *fd is for the peers. Returns 0 or errno. */
int collective_open(int rank, int size, collective **out, int *fd);
/* Maps a peer's control segment and watches its process. Returns 0 or errno. */
int collective_join(collective *c, int rank, pid_t pid, int fd);
/* Makes the memory around an address mappable by peers. Returns its handle and its distance from the start, or -1 for private memory. */
int collective_share(collective *c, const void *address, uint64_t *offset);
/* Runs a call on this thread, after those submitted before. */
void collective_run(collective *c, collective_call *call);
/* Runs a call on the communicator's thread; *done becomes 1, then the bell rings. Returns 0 or errno; SUBMIT_OVER: a small call that all others had
 * entered, it is over and no bell rings. */
int collective_submit(collective *c, collective_call *call, int32_t *done, int bell);
/* Breaks the communicator: calls under way here and elsewhere end. */
void collective_abort(collective *c);
/* Calls completed, and the state of a peer: 0 alive, 1 its process ended, 2 it closed or broke. */
int collective_completed(collective *c);
int collective_peer(collective *c, int rank);
void collective_close(collective *c);

#endif
