/*
 * What the files of the collective executor share (collective.h says how it works): the control segment, and who does what.
 *
 *   collective.c           life, and whose thread a call runs on
 *   collective-wait.c      waiting, and how a call fails
 *   collective-memory.c    memory of peers: mapped, private, staged
 *   collective-slots.c     the beginning of every call, and calls that fit into a slot
 *   collective-direct.c    all-reduce and all-to-all in place
 *   collective-program.c   encoded schedules
 */
#ifndef VERBENA_COLLECTIVE_PARTS_H
#define VERBENA_COLLECTIVE_PARTS_H

#include <poll.h>
#include <pthread.h>
#include <time.h>

#include "collective.h"
#include "relax.h"

enum { REGIONS = 512, LINE = 64, SEGMENT = 512 << 10, QUEUE = 256 };
/* Private memory: up to STAGED bytes are copied by hand, more by the kernel; what is combined passes through blocks that stay in a cache. */
enum { STAGED = 16 << 10, BLOCK = 128 << 10 };
/* A place in private memory: its offset is an address of the owner. */
enum { NOWHERE = -1, PRIVATE = -2 };

typedef struct region {
  uint64_t inode, offset, length;
  int32_t fd, device;
} region;

typedef struct slot {
  int32_t sequence, signature[COLLECTIVE_WORDS], spare[2];
  uint8_t payload[COLLECTIVE_SMALL];
} slot;

typedef struct line {
  int32_t count, handle;
  struct {
    uint64_t offset, length;
  } part[2];
  uint8_t rest[LINE - 40];
} line;

typedef struct control {
  int32_t magic, size, broken, culprit;
  uint64_t address;       /* of this segment at its owner */
  int32_t staged;         /* this rank cannot reach the private memory of all others */
  int32_t passed;         /* the last call it had been through when it closed */
  uint8_t pad0[LINE - 32];
  int32_t finished;
  uint8_t pad1[LINE - 4];
  int32_t sleeping, bell;
  uint8_t pad2[LINE - 8];
  slot slots[2];
  region regions[REGIONS];
  line lines[]; /* inbox: size * channels; acks: size * channels */
} control;

/* Where a buffer of any rank lies: handle and distance, published at the start of a call. */
typedef struct place {
  int64_t handle;
  uint64_t offset;
} place;

typedef struct peer {
  control *control;
  uint8_t *mapped[REGIONS];
  pid_t pid;
  uint64_t start_time; /* of the process, where there are no pidfds */
} peer;

typedef struct job {
  collective_call *call;
  int32_t *done;
  int bell;
} job;

struct collective {
  int rank, size, fd, regions;
  uint8_t staged[REGIONS]; /* which of the own regions are staging areas */
  size_t control_bytes;
  control *own;
  peer *peers;
  struct pollfd *processes; /* pidfds; the own entry is -1 */
  int32_t sequence, passed, completed;
  int32_t phase;
  int32_t *posted, *taken; /* per peer and channel */
  int spins, yields; /* before a waiting thread sleeps */
  int staging_handle;
  uint8_t *staging;
  size_t staging_bytes;
  uint8_t *blocks; /* of peers' private memory */
  size_t blocks_bytes;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  pthread_t thread;
  int thread_runs, busy, closing;
  job queue[QUEUE];
  unsigned head, tail;
};

/* How long a call has waited, and what ended that. */
typedef struct patience {
  int round, armed, bell, failed, culprit;
  double deadline;
} patience;

typedef struct piece {
  uint64_t offset, length; /* bytes in the buffer */
} piece;

enum access { FETCH, FETCH_REDUCE, PUT };

static inline double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static inline int32_t load(const int32_t *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
static inline void publish(int32_t *word, int32_t value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }
static inline slot *slot_of(collective *c, int rank) { return &c->peers[rank].control->slots[c->sequence & 1]; }

/* Where chunk `chunk` of `count` elements begins when they are cut evenly. */
static inline uint64_t even(uint64_t count, int chunks, int chunk) {
  uint64_t base = count / (uint64_t)chunks, longer = count % (uint64_t)chunks, k = (uint64_t)chunk;
  return k * base + (k < longer ? k : longer);
}

/* ---- collective-wait.c ---- */

/* Wakes a rank from its sleep; co_wake and co_wake_all do so where it sleeps. */
void co_ring(control *who);
void co_wake(control *who);
void co_wake_all(collective *c);
/* A rank that broke or closed the communicator: how its calls and ours end; a loss counts more than the rest. CALL_DONE: there is none. */
int co_broken_by(collective *c, int32_t call, int *culprit);
/* Whether the process of a rank has ended. */
int co_is_dead(collective *c, int rank);
/* One turn of waiting: look again afterwards. Returns whether to give up; what was awaited may have happened just before, so the first
 * trouble only asks for one more look. */
int co_wait_turn(collective *c, patience *p);
/* After success: the next wait starts with a spin again. */
void co_wait_over(collective *c, patience *p);
/* Ends the call with a status and breaks the communicator for everybody. Returns the status. */
int co_give_up(collective *c, collective_call *call, patience *p, int status);
/* Waits until word - wanted >= 0. */
int co_await(collective *c, collective_call *call, patience *p, const int32_t *word, int32_t wanted);
/* A system call failed with `error`. */
int co_system_failure(collective *c, collective_call *call, patience *p, int error);

/* ---- collective-memory.c ---- */

/* A region of a peer, mapped at first use. NULL: errno says why. */
uint8_t *co_reach(collective *c, int rank, int64_t handle, uint64_t offset);
/* Whether private memory is read and written where it lies. Everybody has said so before the second call. */
int co_reaches_private(collective *c);
/* Where peers find a buffer of ours that stays where it is. */
place co_place_of(collective *c, const collective_buffer *buffer);
/* Copies between own memory and the private memory of a process. Returns 0 or -1 with errno. */
int co_transfer(pid_t pid, uint8_t *own, uint64_t there, uint64_t length, int writes);
/* So many bytes for blocks of peers' memory, until the next call of this. NULL: no memory. */
uint8_t *co_blocks(collective *c, size_t bytes);
/* At least so many bytes that peers can map. Grows by doubling; peers map the new one when they meet its handle. Returns 0 or errno. */
int co_staging(collective *c, size_t bytes);
/* to = from, or to = to op from, piece by piece. */
void co_store(const collective_call *call, uint8_t *to, const piece target[2], const uint8_t *from, const piece source[2], int reduces, int finishes);
/* The same with a peer's memory: mapped, or private. Returns 0, or -1 with errno. */
int co_access(collective *c, const collective_call *call, int rank, place where, const piece there[2], uint8_t *base, const piece own[2],
              enum access access, int finishes);

/* ---- collective-slots.c ---- */

/* Says what this rank calls. */
void co_announce(collective *c, collective_call *call, const void *payload, size_t bytes);
/* The same, and waits for what everybody else calls. */
int co_enter(collective *c, collective_call *call, patience *p, const void *payload, size_t bytes);
/* Everybody waits for everybody. */
int co_meet(collective *c, collective_call *call, patience *p);
/* What this rank puts into its slot in a call that fits there. */
piece co_said_in_slot(collective *c, collective_call *call, size_t width);

/* The ways to carry out a call. */
void co_run_slots(collective *c, collective_call *call, patience *p);
void co_run_direct(collective *c, collective_call *call, patience *p);
void co_run_exchange(collective *c, collective_call *call, patience *p);
void co_run_program(collective *c, collective_call *call, patience *p);

#endif
