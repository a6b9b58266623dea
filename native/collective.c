#define _GNU_SOURCE
#include "collective.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "memory.h"
#include "notify.h"
#include "reduce.h"
#include "watch.h"

enum { MAGIC = 0x56434f4d, REGIONS = 512, LINE = 64, SLEEP_MS = 20, SEGMENT = 512 << 10, QUEUE = 256, LANES = 64 };
/* Private memory: up to STAGED bytes are copied by hand, more by the kernel; what is combined passes through blocks that stay in a cache. */
enum { STAGED = 16 << 10, BLOCK = 128 << 10, LEAST_BLOCK = 16 << 10, STREAMED = 4 << 20 };
/* How often a submitted call looks for the others before it is handed to the thread: about as long as that, and being woken, would take. */
enum { HAND_OVER = 400 };
/* A place in private memory: its offset is an address of the owner. */
enum { NOWHERE = -1, PRIVATE = -2 };
/* src/schedule/encoding.ts */
enum { PROGRAM_MAGIC = 0x56534301, HEADER_WORDS = 4, RECORD_WORDS = 8, FINISH = 1 << 8 };
enum { OP_SEND = 1, OP_RECEIVE, OP_RECEIVE_REDUCE, OP_COPY, OP_REDUCE, OP_READ, OP_READ_REDUCE, OP_WRITE, OP_SIGNAL, OP_WAIT, OP_AFTER };

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
  int spins, yields; /* turns of waiting before it sleeps */
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

/* ---- waiting ---- */

typedef struct patience {
  int round, armed, bell, failed, culprit;
  double deadline;
} patience;

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static int32_t load(const int32_t *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
static void publish(int32_t *word, int32_t value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }

static void wake(control *who) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  if (!__atomic_load_n(&who->sleeping, __ATOMIC_RELAXED)) return;
  __atomic_add_fetch(&who->bell, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &who->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void wake_all(collective *c) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  for (int r = 0; r < c->size; r++) {
    control *who = c->peers[r].control;
    if (r == c->rank || !who || !__atomic_load_n(&who->sleeping, __ATOMIC_RELAXED)) continue;
    __atomic_add_fetch(&who->bell, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &who->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
  }
}

/* A rank that closed after the call in question: it has done its part of it. */
static int left_in_peace(collective *c, int rank, int32_t call) {
  control *who = c->peers[rank].control;
  return rank != c->rank && who && load(&who->broken) == CALL_CLOSED && who->passed - call >= 0;
}

/* A rank that broke or closed the communicator: how its calls and ours end; a loss counts more than the rest. CALL_DONE: there is none. */
static int broken_by(collective *c, int32_t call, int *culprit) {
  int found = CALL_DONE;
  for (int k = 0; k < c->size && found != CALL_PEER_LOST; k++) {
    int r = (c->rank + k) % c->size, broken = load(&c->peers[r].control->broken);
    if (!broken || (found && broken != CALL_PEER_LOST) || left_in_peace(c, r, call)) continue;
    int own_trouble = r != c->rank && (broken == CALL_TIMEOUT || broken == CALL_SYSTEM); /* means nothing to others */
    *culprit = own_trouble ? r : c->peers[r].control->culprit;
    found = own_trouble ? CALL_ABORTED : broken;
  }
  return found;
}

static int is_dead(collective *c, int rank) {
  if (rank == c->rank || !c->peers[rank].control) return 0;
  struct pollfd process = c->processes[rank];
  if (process.fd >= 0) return poll(&process, 1, 0) == 1;
  uint64_t start_time;
  char letter;
  return process_stat(c->peers[rank].pid, &start_time, &letter) != 0 || start_time != c->peers[rank].start_time || letter == 'Z';
}

/* What ends a wait: CALL_DONE while there is nothing. */
static int trouble(collective *c, patience *p) {
  int dead = -1;
  for (int r = 0; r < c->size && dead < 0; r++)
    if (!left_in_peace(c, r, c->sequence) && is_dead(c, r)) dead = r;
  /* Whoever heard of a loss before us may have ended meanwhile: what it said counts more than its end. */
  int broken = broken_by(c, c->sequence, &p->culprit);
  if (broken) return broken;
  if (dead >= 0 && !left_in_peace(c, dead, c->sequence)) {
    p->culprit = dead;
    return CALL_PEER_LOST;
  }
  return p->deadline > 0 && now_ms() > p->deadline ? CALL_TIMEOUT : CALL_DONE;
}

/* One turn of waiting: look again afterwards. Returns whether to give up; what was awaited may have happened just before, so the first
 * trouble only asks for one more look. */
static int wait_turn(collective *c, patience *p) {
  if (p->failed) return p->failed;
  if (++p->round < c->spins) {
    relax();
    return 0;
  }
  if (p->round < c->spins + c->yields) {
    sched_yield();
    return 0;
  }
  control *own = c->own;
  if (!p->armed) {
    p->bell = load(&own->bell);
    __atomic_store_n(&own->sleeping, 1, __ATOMIC_SEQ_CST);
    p->armed = 1;
    return 0;
  }
  struct timespec nap = {0, SLEEP_MS * 1000000};
  syscall(SYS_futex, &own->bell, FUTEX_WAIT, p->bell, &nap, NULL, 0);
  p->bell = load(&own->bell);
  p->failed = trouble(c, p);
  return 0;
}

/* After success: the next wait starts with a spin again. */
static void wait_over(collective *c, patience *p) {
  if (p->armed) __atomic_store_n(&c->own->sleeping, 0, __ATOMIC_RELAXED);
  p->armed = p->round = p->failed = 0;
}

static int give_up(collective *c, collective_call *call, patience *p, int status) {
  wait_over(c, p);
  call->status = status;
  call->culprit = p->culprit;
  if (!load(&c->own->broken)) {
    c->own->culprit = status == CALL_TIMEOUT ? c->rank : p->culprit;
    publish(&c->own->broken, status);
    wake_all(c);
  }
  return status;
}

/* Waits until word - wanted >= 0. */
static int await_word(collective *c, collective_call *call, patience *p, const int32_t *word, int32_t wanted) {
  while (load(word) - wanted < 0) {
    int status = wait_turn(c, p);
    if (status) return give_up(c, call, p, status);
  }
  wait_over(c, p);
  return CALL_DONE;
}

/* ---- memory of peers ---- */

/* The memory of a process that ends is gone a moment before its end is seen: then the loss is what happened. */
static int system_failure(collective *c, collective_call *call, patience *p, int error) {
  int may_be_loss = error == ENOENT || error == ESRCH || error == EACCES || error == ESTALE;
  for (int turn = 0; may_be_loss && turn < 100; turn++) {
    int status = trouble(c, p);
    if (status) return give_up(c, call, p, status);
    poll(NULL, 0, 2);
  }
  p->culprit = error;
  return give_up(c, call, p, CALL_SYSTEM);
}

/* A region of a peer, mapped at first use. NULL: errno says why. */
static uint8_t *reach(collective *c, int rank, int64_t handle, uint64_t offset) {
  peer *p = &c->peers[rank];
  if (handle < 0 || handle >= REGIONS) {
    errno = EFAULT;
    return NULL;
  }
  if (!p->mapped[handle]) {
    region *r = &p->control->regions[handle];
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)p->pid, r->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return NULL;
    struct stat st;
    void *base = MAP_FAILED;
    if (fstat(fd, &st) == 0 && st.st_ino == r->inode)
      base = mmap(NULL, r->length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)r->offset);
    else errno = ESTALE;
    int error = errno;
    close(fd);
    if (base == MAP_FAILED) {
      errno = error;
      return NULL;
    }
    p->mapped[handle] = base;
  }
  return p->mapped[handle] + offset;
}

/* Whether private memory is read and written where it lies. Everybody has said so before the second call. */
static int reaches_private(collective *c) {
  if (c->sequence < 1) return 0;
  for (int r = 0; r < c->size; r++)
    if (c->peers[r].control->staged) return 0;
  return 1;
}

/* Copies between own memory and the private memory of a process. Returns 0 or -1 with errno. */
static int transfer(pid_t pid, uint8_t *own, uint64_t there, uint64_t length, int writes) {
  while (length > 0) {
    struct iovec here = {own, length}, far = {(void *)(uintptr_t)there, length};
    ssize_t moved = writes ? process_vm_writev(pid, &here, 1, &far, 1, 0) : process_vm_readv(pid, &here, 1, &far, 1, 0);
    if (moved <= 0) {
      if (moved == 0) errno = EFAULT;
      return -1;
    }
    own += moved;
    there += (uint64_t)moved;
    length -= (uint64_t)moved;
  }
  return 0;
}

static uint8_t *blocks(collective *c, size_t bytes) {
  if (bytes > c->blocks_bytes) {
    free(c->blocks);
    c->blocks = aligned_alloc(LINE, bytes);
    c->blocks_bytes = c->blocks ? bytes : 0;
  }
  return c->blocks;
}

static int export_region(collective *c, int fd, uint64_t inode, int device, uint64_t offset, uint64_t length, uint8_t *base) {
  for (int i = 0; i < c->regions; i++) {
    region *r = &c->own->regions[i];
    if (r->inode == inode && r->device == device && r->offset == offset && r->length == length && c->peers[c->rank].mapped[i] == base)
      return i;
  }
  if (c->regions == REGIONS) return -1;
  c->own->regions[c->regions] = (region){inode, offset, length, fd, device};
  c->peers[c->rank].mapped[c->regions] = base;
  return c->regions++;
}

static int descriptor_of(uint64_t inode, int device) {
  DIR *dir = opendir("/proc/self/fd");
  if (!dir) return -1;
  int found = -1;
  for (struct dirent *e; found < 0 && (e = readdir(dir));) {
    struct stat st;
    int fd = atoi(e->d_name);
    if (e->d_name[0] == '.' || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) continue;
    if (st.st_ino == inode && (int)st.st_dev == device) found = fd;
  }
  closedir(dir);
  return found;
}

int collective_share(collective *c, const void *address, uint64_t *offset) {
  FILE *maps = fopen("/proc/self/maps", "re");
  if (!maps) return -1;
  char text[512];
  int handle = -1;
  while (fgets(text, sizeof text, maps)) {
    unsigned long start, end, file_offset, inode;
    unsigned major_number, minor_number;
    char permissions[8];
    if (sscanf(text, "%lx-%lx %7s %lx %x:%x %lu", &start, &end, permissions, &file_offset, &major_number, &minor_number, &inode) != 7) continue;
    uintptr_t at = (uintptr_t)address;
    if (at < start || at >= end) continue;
    if (permissions[1] == 'w' && permissions[3] == 's' && inode != 0) {
      int device = (int)makedev(major_number, minor_number), fd = descriptor_of(inode, device);
      pthread_mutex_lock(&c->mutex);
      if (fd >= 0) handle = export_region(c, fd, inode, device, file_offset, end - start, (uint8_t *)start);
      pthread_mutex_unlock(&c->mutex);
      *offset = at - start;
    }
    break;
  }
  fclose(maps);
  return handle;
}

/* At least so many bytes that peers can map. Grows by doubling; peers map the new one when they meet its handle. */
static int staging(collective *c, size_t bytes) {
  if (bytes <= c->staging_bytes) return 0;
  size_t length = c->staging_bytes ? c->staging_bytes : 4 * SEGMENT;
  while (length < bytes) length *= 2;
  int fd = memory_create("verbena-staging", 0);
  if (fd < 0) return -fd;
  struct stat st;
  int error = ftruncate(fd, (off_t)length) == 0 ? memory_reserve(fd, 0, length) : errno;
  void *base = error ? MAP_FAILED : mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (!error && base == MAP_FAILED) error = errno;
  if (!error && fstat(fd, &st) != 0) error = errno;
  int handle = -1;
  if (!error) {
    pthread_mutex_lock(&c->mutex);
    handle = export_region(c, fd, st.st_ino, (int)st.st_dev, 0, length, base);
    pthread_mutex_unlock(&c->mutex);
    if (handle < 0) error = ENOSPC;
  }
  if (error) {
    if (base != MAP_FAILED) munmap(base, length);
    close(fd);
    return error;
  }
  c->staged[handle] = 1;
  c->staging = base;
  c->staging_bytes = length;
  c->staging_handle = handle;
  return 0;
}

/* ---- the beginning of every call ---- */

static slot *slot_of(collective *c, int rank) { return &c->peers[rank].control->slots[c->sequence & 1]; }

static void announce(collective *c, collective_call *call, const void *payload, size_t bytes) {
  c->sequence++;
  slot *mine = slot_of(c, c->rank);
  int32_t signature[COLLECTIVE_WORDS] = {call->collective | call->op << 8 | call->type << 16 | call->method << 24, call->root,
                                         (int32_t)call->count, (int32_t)(call->count >> 32), call->identity};
  memcpy(mine->signature, signature, sizeof signature);
  if (bytes) memcpy(mine->payload, payload, bytes);
  publish(&mine->sequence, c->sequence);
  wake_all(c);
}

static int enter(collective *c, collective_call *call, patience *p, const void *payload, size_t bytes) {
  if (!call->announced) announce(c, call, payload, bytes);
  int32_t *signature = slot_of(c, c->rank)->signature;
  size_t length = COLLECTIVE_WORDS * sizeof *signature;
  int other = -1;
  for (int k = 1; k < c->size; k++) {
    int r = (c->rank + k) % c->size;
    slot *theirs = slot_of(c, r);
    int status = await_word(c, call, p, &theirs->sequence, c->sequence);
    if (status) return status;
    if (memcmp(theirs->signature, signature, length) != 0 && (other < 0 || r < other)) other = r;
  }
  if (call->times) call->times[1] = now_ms();
  if (other < 0) return CALL_DONE;
  call->culprit = other;
  memcpy(call->theirs, slot_of(c, other)->signature, length);
  return call->status = CALL_MISMATCH;
}

/* Everybody waits for everybody. */
static int meet(collective *c, collective_call *call, patience *p) {
  publish(&c->own->finished, ++c->phase);
  wake_all(c);
  for (int k = 1; k < c->size; k++) {
    int status = await_word(c, call, p, &c->peers[(c->rank + k) % c->size].control->finished, c->phase);
    if (status) return status;
  }
  return CALL_DONE;
}

static uint64_t even(uint64_t count, int chunks, int chunk) {
  uint64_t base = count / (uint64_t)chunks, longer = count % (uint64_t)chunks, k = (uint64_t)chunk;
  return k * base + (k < longer ? k : longer);
}

/* ---- calls that fit into a slot ---- */

typedef struct piece {
  uint64_t offset, length; /* bytes in the buffer */
} piece;

/* What this rank puts into its slot. */
static piece said_in_slot(collective *c, collective_call *call, size_t width) {
  uint64_t first = even(call->count, c->size, c->rank) * width, end = even(call->count, c->size, c->rank + 1) * width;
  switch (call->collective) {
    case COLLECTIVE_ALL_GATHER: return (piece){first, end - first};
    case COLLECTIVE_GATHER: return (piece){0, call->buffer[0].bytes};
    case COLLECTIVE_BROADCAST:
    case COLLECTIVE_SCATTER: return (piece){0, c->rank == call->root ? call->count * width : 0};
    default: return (piece){0, call->count * width};
  }
}

static void combine_slots(collective *c, collective_call *call, uint8_t *data, uint64_t first, uint64_t end, int ranks) {
  size_t width = reduce_width(call->type);
  memcpy(data + first, slot_of(c, 0)->payload + first, end - first);
  for (int r = 1; r < ranks; r++)
    reduce_into(call->type, call->op, data + first, slot_of(c, r)->payload + first, (end - first) / width,
                r == c->size - 1 ? call->divisor : 1);
}

static void run_slots(collective *c, collective_call *call, patience *p) {
  size_t width = reduce_width(call->type), bytes = call->count * width;
  uint8_t *data = call->buffer[0].address, *output = call->buffer[1].address;
  uint64_t first = even(call->count, c->size, c->rank) * width, end = even(call->count, c->size, c->rank + 1) * width;
  piece said = said_in_slot(c, call, width);
  if (enter(c, call, p, data + said.offset, said.length)) return;
  call->messages = (uint64_t)c->size - 1;
  call->bytes_sent = said.length * (uint64_t)(c->size - 1);
  switch (call->collective) {
    case COLLECTIVE_REDUCE:
      if (c->rank == call->root) combine_slots(c, call, data, 0, bytes, c->size);
      return;
    case COLLECTIVE_ALLREDUCE: combine_slots(c, call, data, 0, bytes, c->size); return;
    case COLLECTIVE_REDUCE_SCATTER: combine_slots(c, call, data, first, end, c->size); return;
    case COLLECTIVE_SCAN: combine_slots(c, call, data, 0, bytes, c->rank + 1); return;
    case COLLECTIVE_ALL_GATHER:
    case COLLECTIVE_GATHER:
      if (call->collective == COLLECTIVE_GATHER) {
        if (c->rank != call->root) return;
        data = output;
      }
      for (int r = 0; r < c->size; r++) {
        uint64_t at = even(call->count, c->size, r) * width;
        memcpy(data + at, slot_of(c, r)->payload, even(call->count, c->size, r + 1) * width - at);
      }
      return;
    case COLLECTIVE_SCATTER: memcpy(output, slot_of(c, call->root)->payload + first, end - first); return;
    case COLLECTIVE_ALL_TO_ALL:
      for (int r = 0; r < c->size; r++) memcpy(output + (size_t)r * (end - first), slot_of(c, r)->payload + first, end - first);
      return;
    case COLLECTIVE_BROADCAST:
      if (c->rank != call->root) memcpy(data, slot_of(c, call->root)->payload, bytes);
  }
}

/* ---- all-reduce in place ---- */

/* Part r of n elements, cut at cache lines. */
static uint64_t cut(uint64_t count, size_t width, int parts, int part) {
  uint64_t per_line = LINE / width, lines = (count + per_line - 1) / per_line, at = even(lines, parts, part) * per_line;
  return at < count ? at : count;
}

/* Where the vector of a rank is for us during an all-reduce in place. */
typedef struct source {
  uint8_t *base;    /* mapped; NULL: private memory of another rank */
  uint64_t address; /* there */
  int64_t moves;    /* 0: a staging area, which holds one segment at a time */
} source;

static int combine_part(collective *c, collective_call *call, const source *sources, uint64_t at, uint64_t count) {
  size_t width = reduce_width(call->type);
  uint64_t first = cut(count, width, c->size, c->rank) * width, end = cut(count, width, c->size, c->rank + 1) * width, far = 0;
  call->bytes_accessed += 2 * (end - first) * (uint64_t)(c->size - 1);
  if (end <= first || c->size == 1) return 0;
  for (int r = 0; r < c->size; r++) far += !sources[r].base;
  uint64_t block = far ? BLOCK / far / LINE * LINE : end - first;
  if (far && block < LEAST_BLOCK) block = LEAST_BLOCK;
  uint8_t *landing = far ? blocks(c, far * block) : NULL;
  if (far && !landing) return -1;
  void *parts[c->size];
  for (uint64_t from = first; from < end; from += block) {
    uint64_t n = end - from < block ? end - from : block;
    uint8_t *next = landing;
    for (int r = 0; r < c->size; r++) {
      uint64_t offset = (sources[r].moves ? at * width : 0) + from;
      if (sources[r].base) {
        parts[r] = sources[r].base + offset;
        continue;
      }
      parts[r] = next;
      next += block;
      if (transfer(c->peers[r].pid, parts[r], sources[r].address + offset, n, 0)) return -1;
    }
    reduce_all(call->type, call->op, parts, c->size, n / width, call->divisor);
    for (int r = 0; r < c->size; r++)
      if (!sources[r].base && transfer(c->peers[r].pid, parts[r], sources[r].address + at * width + from, n, 1)) return -1;
  }
  return 0;
}

/* Between the vector and the staging area: the parts that other ranks combine, into it or out of it. */
static void stage_parts(collective *c, uint8_t *data, uint8_t *staging, uint64_t n, size_t width, int out) {
  uint64_t first = cut(n, width, c->size, c->rank) * width, end = cut(n, width, c->size, c->rank + 1) * width;
  uint8_t *to = out ? data : staging, *from = out ? staging : data;
  memcpy(to, from, first);
  memcpy(to + end, from + end, n * width - end);
}

static void run_direct(collective *c, collective_call *call, patience *p) {
  collective_buffer *data = &call->buffer[0];
  size_t width = reduce_width(call->type);
  uint64_t bytes = call->count * width;
  int is_private = data->handle < 0, stays = !is_private || (bytes > STAGED && reaches_private(c));
  int error = stays ? 0 : staging(c, 2 * SEGMENT);
  if (error) {
    system_failure(c, call, p, error);
    return;
  }
  place mine = {c->staging_handle, 0};
  if (!is_private) mine = (place){data->handle, (uint64_t)(data->address - c->peers[c->rank].mapped[data->handle])};
  else if (stays) mine = (place){PRIVATE, (uint64_t)(uintptr_t)data->address};
  struct {
    place where;
    int64_t stays;
  } say = {mine, stays};
  if (enter(c, call, p, &say, sizeof say)) return;
  source sources[c->size];
  int staged = 0;
  for (int r = 0; r < c->size; r++) {
    memcpy(&say, slot_of(c, r)->payload, sizeof say);
    staged |= !say.stays;
    sources[r] = (source){NULL, say.where.offset, say.stays};
    if (r == c->rank) sources[r] = (source){data->address, 0, 1}; /* the own part needs no staging */
    else if (say.where.handle != PRIVATE && !(sources[r].base = reach(c, r, say.where.handle, say.where.offset))) {
      system_failure(c, call, p, errno);
      return;
    }
  }
  call->messages = 2 * (uint64_t)(c->size - 1);
  if (!staged) {
    if (combine_part(c, call, sources, 0, call->count)) system_failure(c, call, p, errno);
    else meet(c, call, p);
    return;
  }
  /* Somebody's memory is out of reach: segment by segment through staging areas of two segments, one filled while the other is combined. */
  uint64_t per_segment = SEGMENT / width;
  for (uint64_t at = 0; at < call->count || at == 0; at += per_segment) {
    uint64_t n = call->count - at < per_segment ? call->count - at : per_segment, next = at + n;
    uint64_t after = call->count - next < per_segment ? call->count - next : per_segment;
    int half = (int)(at / per_segment & 1);
    if (at == 0) {
      if (!stays) stage_parts(c, data->address, c->staging, n, width, 0);
      if (meet(c, call, p)) return;
    }
    source here[c->size];
    for (int r = 0; r < c->size; r++) {
      here[r] = sources[r];
      if (!here[r].moves && half) here[r].base += SEGMENT;
    }
    if (combine_part(c, call, here, at, n)) {
      system_failure(c, call, p, errno);
      return;
    }
    if (!stays && after) stage_parts(c, data->address + next * width, c->staging + (half ? 0 : SEGMENT), after, width, 0);
    if (meet(c, call, p)) return;
    if (!stays) stage_parts(c, data->address + at * width, c->staging + (half ? SEGMENT : 0), n, width, 1);
  }
}

/* ---- programs ---- */

typedef struct execution {
  collective *c;
  collective_call *call;
  patience *p;
  int chunks;
  size_t width;
  uint8_t *base[COLLECTIVE_BUFFERS];  /* where own buffers lie: the caller's memory, or staging */
  place where[COLLECTIVE_BUFFERS];    /* the same for peers */
} execution;

static uint64_t offset_of(execution *x, int buffer, int chunk) {
  const double *offsets = x->call->buffer[buffer].offsets;
  return (offsets ? (uint64_t)offsets[chunk] : even(x->call->count, x->chunks, chunk)) * x->width;
}

/* Bytes in `count` chunks from `first`, cyclic. */
static uint64_t length_of(execution *x, int buffer, int first, int count) {
  int end = first + count;
  if (end <= x->chunks) return offset_of(x, buffer, end) - offset_of(x, buffer, first);
  return offset_of(x, buffer, x->chunks) - offset_of(x, buffer, first) + offset_of(x, buffer, end - x->chunks);
}

static void pieces_of(execution *x, int buffer, int whole, int first, int count, piece out[2]) {
  int start = whole ? 0 : x->call->buffer[buffer].first;
  int head = count < x->chunks - first ? count : x->chunks - first;
  out[0] = (piece){length_of(x, buffer, start, (first - start + x->chunks) % x->chunks), length_of(x, buffer, first, head)};
  out[1] = (piece){0, 0};
  if (count > head)
    out[1] = (piece){length_of(x, buffer, start, (x->chunks - start) % x->chunks), length_of(x, buffer, 0, count - head)};
}

/* What is larger than the caches is not read before it is overwritten. */
static void move(uint8_t *to, const uint8_t *from, uint64_t length) {
#if defined(__x86_64__)
  if (length >= STREAMED && (to + length <= from || from + length <= to)) {
    uint64_t head = -(uintptr_t)to & (LINE - 1);
    memcpy(to, from, head);
    to += head;
    from += head;
    length -= head;
    for (; length >= LINE; length -= LINE, to += LINE, from += LINE) {
      __m128i a = _mm_loadu_si128((const __m128i *)from), b = _mm_loadu_si128((const __m128i *)(from + 16));
      __m128i c = _mm_loadu_si128((const __m128i *)(from + 32)), d = _mm_loadu_si128((const __m128i *)(from + 48));
      _mm_stream_si128((__m128i *)to, a);
      _mm_stream_si128((__m128i *)(to + 16), b);
      _mm_stream_si128((__m128i *)(to + 32), c);
      _mm_stream_si128((__m128i *)(to + 48), d);
    }
    _mm_sfence();
    memcpy(to, from, length);
    return;
  }
#endif
  memmove(to, from, length);
}

/* to = from, or to = to op from, piece by piece. */
static void store(execution *x, uint8_t *to, const piece target[2], const uint8_t *from, const piece source[2], int reduces, int finishes) {
  for (int i = 0; i < 2; i++) {
    if (!target[i].length) continue;
    if (reduces)
      reduce_into(x->call->type, x->call->op, to + target[i].offset, from + source[i].offset, target[i].length / x->width,
                  finishes ? x->call->divisor : 1);
    else move(to + target[i].offset, from + source[i].offset, target[i].length);
  }
}

enum access { FETCH, FETCH_REDUCE, PUT };

/* The same with a peer's memory: mapped, or private. Returns 0, or -1 with errno. */
static int access_peer(execution *x, int rank, place where, const piece there[2], uint8_t *base, const piece own[2], enum access access,
                       int finishes) {
  collective *c = x->c;
  if (where.handle != PRIVATE) {
    uint8_t *remote = reach(c, rank, where.handle, where.offset);
    if (!remote) return -1;
    if (access == PUT) store(x, remote, there, base, own, 0, 0);
    else store(x, base, own, remote, there, access == FETCH_REDUCE, finishes);
    return 0;
  }
  for (int i = 0; i < 2; i++) {
    uint8_t *local = base + own[i].offset;
    uint64_t far = where.offset + there[i].offset;
    if (access != FETCH_REDUCE) {
      if (transfer(c->peers[rank].pid, local, far, own[i].length, access == PUT)) return -1;
      continue;
    }
    uint8_t *block = blocks(c, BLOCK);
    if (!block) return -1;
    for (uint64_t at = 0; at < own[i].length; at += BLOCK) {
      uint64_t n = own[i].length - at < BLOCK ? own[i].length - at : BLOCK;
      if (transfer(c->peers[rank].pid, block, far + at, n, 0)) return -1;
      reduce_into(x->call->type, x->call->op, local + at, block, n / x->width, finishes ? x->call->divisor : 1);
    }
  }
  return 0;
}

static line *inbox(collective *c, int owner, int from, int channel) {
  return &c->peers[owner].control->lines[from * COLLECTIVE_CHANNELS + channel];
}

static line *acks(collective *c, int owner, int from, int channel) { return inbox(c, owner, c->size + from, channel); }

typedef struct lane {
  const int32_t *at, *end;
  int completed, posted;
} lane;

enum { BLOCKED, ADVANCED, FAILED };

/* Tries the instruction at which a lane stands. */
static int step(execution *x, lane *lanes, lane *l) {
  collective *c = x->c;
  const int32_t *w = l->at;
  int op = w[0] & 0xff, finishes = w[0] & FINISH, other = w[2], channel = w[3];
  int buffer = w[4] & 0xffff, other_buffer = w[4] >> 16 & 0xffff, first = w[5], count = w[6];
  int stream = other * COLLECTIVE_CHANNELS + channel;
  piece own[2], there[2];
  switch (op) {
    case OP_AFTER: return lanes[other].completed >= count ? ADVANCED : BLOCKED;
    case OP_SEND:
      if (!l->posted) {
        line *box = inbox(c, other, c->rank, channel);
        pieces_of(x, buffer, 0, first, count, own);
        box->handle = (int32_t)x->where[buffer].handle;
        for (int i = 0; i < 2; i++) {
          box->part[i].offset = x->where[buffer].offset + own[i].offset;
          box->part[i].length = own[i].length;
          x->call->bytes_sent += own[i].length;
        }
        x->call->messages++;
        publish(&box->count, ++c->posted[stream]);
        wake(c->peers[other].control);
        l->posted = 1;
      }
      if (load(&acks(c, c->rank, other, channel)->count) - c->posted[stream] < 0) return BLOCKED;
      l->posted = 0;
      return ADVANCED;
    case OP_SIGNAL:
      x->call->messages++;
      publish(&inbox(c, other, c->rank, channel)->count, ++c->posted[stream]);
      wake(c->peers[other].control);
      return ADVANCED;
    case OP_WAIT:
    case OP_RECEIVE:
    case OP_RECEIVE_REDUCE: {
      line *box = inbox(c, c->rank, other, channel);
      if (load(&box->count) - (c->taken[stream] + 1) < 0) return BLOCKED;
      c->taken[stream]++;
      if (op == OP_WAIT) return ADVANCED;
      pieces_of(x, buffer, 0, first, count, own);
      for (int i = 0; i < 2; i++) {
        if (box->part[i].length != own[i].length) {
          errno = EPROTO;
          return FAILED;
        }
        there[i] = (piece){box->part[i].offset, own[i].length};
      }
      if (own[0].length + own[1].length &&
          access_peer(x, other, (place){box->handle, 0}, there, x->base[buffer], own, op == OP_RECEIVE ? FETCH : FETCH_REDUCE, finishes))
        return FAILED;
      publish(&acks(c, other, c->rank, channel)->count, c->taken[stream]);
      wake(c->peers[other].control);
      return ADVANCED;
    }
    case OP_COPY:
    case OP_REDUCE:
      pieces_of(x, buffer, 0, first, count, own);
      pieces_of(x, other_buffer, 0, w[7], count, there);
      store(x, x->base[buffer], own, x->base[other_buffer], there, op == OP_REDUCE, finishes);
      return ADVANCED;
    case OP_READ:
    case OP_READ_REDUCE:
    case OP_WRITE: {
      place where;
      memcpy(&where, slot_of(c, other)->payload + (size_t)other_buffer * sizeof where, sizeof where);
      pieces_of(x, buffer, 0, first, count, own);
      if (own[0].length + own[1].length == 0) return ADVANCED;
      pieces_of(x, other_buffer, 1, w[7], count, there);
      enum access access = op == OP_WRITE ? PUT : op == OP_READ ? FETCH : FETCH_REDUCE;
      if (access_peer(x, other, where, there, x->base[buffer], own, access, finishes)) return FAILED;
      x->call->bytes_accessed += own[0].length + own[1].length;
      return ADVANCED;
    }
    default: errno = ENOSYS; return FAILED;
  }
}

static int run_lanes(execution *x) {
  const int32_t *program = x->call->program;
  int count = program[1];
  lane lanes[LANES];
  for (int i = 0; i < count; i++) {
    const int32_t *start = program + program[HEADER_WORDS + 2 * i];
    lanes[i] = (lane){start, start + RECORD_WORDS * program[HEADER_WORDS + 2 * i + 1], 0, 0};
  }
  for (;;) {
    int advanced = 0, open_lanes = 0;
    for (int i = 0; i < count; i++) {
      lane *l = &lanes[i];
      while (l->at < l->end) {
        int result = step(x, lanes, l);
        if (result == FAILED) return system_failure(x->c, x->call, x->p, errno);
        if (result == BLOCKED) break;
        if ((l->at[0] & 0xff) != OP_AFTER) l->completed++;
        l->at += RECORD_WORDS;
        advanced = 1;
      }
      open_lanes += l->at < l->end;
    }
    if (advanced) wait_over(x->c, x->p);
    if (!open_lanes) return CALL_DONE;
    if (advanced) continue;
    int status = wait_turn(x->c, x->p);
    if (status) return give_up(x->c, x->call, x->p, status);
  }
}

static void run_program(collective *c, collective_call *call, patience *p) {
  execution x = {.c = c, .call = call, .p = p, .width = reduce_width(call->type)};
  if (call->program[0] != PROGRAM_MAGIC || call->program[1] > LANES || call->program[3] != c->size) {
    system_failure(c, call, p, EINVAL);
    return;
  }
  x.chunks = call->program[2];
  size_t needed = 0;
  int staged[COLLECTIVE_BUFFERS], reaches = reaches_private(c);
  for (int b = 0; b < call->buffers; b++) {
    collective_buffer *buffer = &call->buffer[b];
    int stays = buffer->handle >= 0 || !buffer->exposed || (reaches && buffer->bytes > STAGED);
    staged[b] = !buffer->address || !stays;
    if (staged[b]) needed += (buffer->bytes + LINE - 1) / LINE * LINE;
  }
  int error = staging(c, needed);
  if (error) {
    system_failure(c, call, p, error);
    return;
  }
  size_t used = 0;
  for (int b = 0; b < call->buffers; b++) {
    collective_buffer *buffer = &call->buffer[b];
    x.where[b] = (place){NOWHERE, 0};
    x.base[b] = buffer->address;
    if (buffer->address && buffer->handle >= 0) {
      x.where[b] = (place){buffer->handle, (uint64_t)(buffer->address - c->peers[c->rank].mapped[buffer->handle])};
    } else if (!staged[b] && buffer->exposed) {
      x.where[b] = (place){PRIVATE, (uint64_t)(uintptr_t)buffer->address};
    } else if (staged[b]) {
      x.where[b] = (place){c->staging_handle, used};
      x.base[b] = c->staging + used;
      used += (buffer->bytes + LINE - 1) / LINE * LINE;
      if (buffer->address && buffer->in) memcpy(x.base[b], buffer->address, buffer->bytes);
    }
  }
  if (enter(c, call, p, x.where, sizeof x.where)) return;
  if (run_lanes(&x)) return;
  for (int b = 0; b < call->buffers; b++) {
    collective_buffer *buffer = &call->buffer[b];
    if (buffer->address && buffer->out && x.base[b] != buffer->address) memcpy(buffer->address, x.base[b], buffer->bytes);
  }
}

/* ---- all-to-all in place ---- */

/* Blocks go out in one direction in one call and in the other in the next: what was touched last is still in the cache, so it is used first. */
static void run_exchange(collective *c, collective_call *call, patience *p) {
  size_t width = reduce_width(call->type);
  uint64_t block = call->count / (uint64_t)c->size * width;
  execution x = {.c = c, .call = call, .p = p, .width = width};
  collective_buffer *input = &call->buffer[0], *output = &call->buffer[1];
  int stays = output->handle >= 0 || reaches_private(c), error = stays ? 0 : staging(c, output->bytes);
  if (error) {
    system_failure(c, call, p, error);
    return;
  }
  uint8_t *landing = stays ? output->address : c->staging;
  place mine = {c->staging_handle, 0};
  if (output->handle >= 0) mine = (place){output->handle, (uint64_t)(output->address - c->peers[c->rank].mapped[output->handle])};
  else if (stays) mine = (place){PRIVATE, (uint64_t)(uintptr_t)output->address};
  if (enter(c, call, p, &mine, sizeof mine)) return;
  int backwards = c->sequence & 1;
  for (int k = 0; k < c->size; k++) {
    int r = (c->rank + (backwards ? c->size - 1 - k : k)) % c->size;
    place where;
    memcpy(&where, slot_of(c, r)->payload, sizeof where);
    for (uint64_t done = 0, n; done < block; done += n) {
      n = block - done < BLOCK ? block - done : BLOCK;
      uint64_t at = backwards ? block - done - n : done;
      piece own[2] = {{(uint64_t)r * block + at, n}}, there[2] = {{(uint64_t)c->rank * block + at, n}};
      if (r == c->rank) memcpy(landing + there[0].offset, input->address + own[0].offset, n);
      else if (access_peer(&x, r, where, there, input->address, own, PUT, 0)) {
        system_failure(c, call, p, errno);
        return;
      }
    }
  }
  call->messages = 2 * (uint64_t)(c->size - 1);
  call->bytes_accessed = block * (uint64_t)(c->size - 1);
  if (meet(c, call, p)) return;
  if (!stays) memcpy(output->address, landing, output->bytes);
}

static void execute(collective *c, collective_call *call) {
  patience p = {.deadline = call->timeout_ms > 0 ? now_ms() + call->timeout_ms : 0};
  call->status = CALL_DONE;
  call->culprit = -1;
  call->bytes_sent = call->bytes_accessed = call->messages = 0;
  int broken = broken_by(c, c->sequence + !call->announced, &p.culprit);
  if (broken) {
    give_up(c, call, &p, broken);
    return;
  }
  if (call->method == METHOD_SLOTS) run_slots(c, call, &p);
  else if (call->method == METHOD_DIRECT && call->collective == COLLECTIVE_ALL_TO_ALL) run_exchange(c, call, &p);
  else if (call->method == METHOD_DIRECT) run_direct(c, call, &p);
  else run_program(c, call, &p);
  if (call->status == CALL_DONE) c->completed++;
  if (call->status == CALL_DONE || call->status == CALL_MISMATCH) c->passed = c->sequence;
}

static void execute_and_report(collective *c, collective_call *call) {
  if (call->times && !call->announced) call->times[0] = call->times[1] = now_ms();
  execute(c, call);
  if (call->times) call->times[2] = now_ms();
  if (!call->report) return;
  call->report[0] = call->status;
  call->report[1] = call->culprit;
  call->report[2] = (double)call->bytes_sent;
  call->report[3] = (double)call->bytes_accessed;
  call->report[4] = (double)call->messages;
  for (int i = 0; i < COLLECTIVE_WORDS; i++) call->report[5 + i] = call->theirs[i];
}

/* ---- on the caller's thread, or on one of our own ---- */

static void *serve(void *data) {
  collective *c = data;
  pthread_mutex_lock(&c->mutex);
  for (;;) {
    while (!c->closing && (c->busy || c->head == c->tail)) pthread_cond_wait(&c->changed, &c->mutex);
    if (c->head == c->tail) break; /* closing, and nothing left to do */
    if (c->busy) {
      pthread_cond_wait(&c->changed, &c->mutex);
      continue;
    }
    job j = c->queue[c->head++ % QUEUE];
    c->busy = 1;
    pthread_mutex_unlock(&c->mutex);
    execute_and_report(c, j.call);
    pthread_mutex_lock(&c->mutex);
    c->busy = 0;
    publish(j.done, 1);
    if (j.bell >= 0) notify_ring(j.bell);
    pthread_cond_broadcast(&c->changed);
  }
  pthread_mutex_unlock(&c->mutex);
  return NULL;
}

/* A call that fits into slots, with nothing before it: says so at once, and waits for the others as long as handing it over would take. Returns
 * whether it is over. */
static int over_at_once(collective *c, collective_call *call) {
  if (call->method != METHOD_SLOTS) return 0;
  pthread_mutex_lock(&c->mutex);
  int is_free = !c->busy && c->head == c->tail, culprit;
  if (is_free) c->busy = 1;
  pthread_mutex_unlock(&c->mutex);
  if (!is_free) return 0;
  int over = broken_by(c, c->sequence + 1, &culprit) != CALL_DONE; /* then it ends with the reason */
  if (!over) {
    if (call->times) call->times[0] = call->times[1] = now_ms();
    piece said = said_in_slot(c, call, reduce_width(call->type));
    announce(c, call, call->buffer[0].address + said.offset, said.length);
    call->announced = 1;
    for (int k = 1, turns = c->spins < HAND_OVER ? c->spins : HAND_OVER; k < c->size && turns > 0;) {
      if (load(&slot_of(c, (c->rank + k) % c->size)->sequence) - c->sequence >= 0) k++;
      else {
        turns--;
        relax();
      }
      over = k == c->size;
    }
    over |= c->size == 1;
  }
  if (over) execute_and_report(c, call);
  pthread_mutex_lock(&c->mutex);
  c->busy = 0;
  if (c->thread_runs) pthread_cond_broadcast(&c->changed);
  pthread_mutex_unlock(&c->mutex);
  return over;
}

int collective_submit(collective *c, collective_call *call, int32_t *done, int bell) {
  if (over_at_once(c, call)) {
    publish(done, 1);
    return SUBMIT_OVER;
  }
  int error = 0;
  pthread_mutex_lock(&c->mutex);
  if (!c->thread_runs) {
    error = pthread_create(&c->thread, NULL, serve, c);
    c->thread_runs = !error;
  }
  if (!error && c->tail - c->head == QUEUE) error = EAGAIN;
  if (!error) {
    c->queue[c->tail++ % QUEUE] = (job){call, done, bell};
    pthread_cond_broadcast(&c->changed);
  }
  pthread_mutex_unlock(&c->mutex);
  return error;
}

void collective_run(collective *c, collective_call *call) {
  pthread_mutex_lock(&c->mutex);
  while (c->busy || c->head != c->tail) pthread_cond_wait(&c->changed, &c->mutex);
  c->busy = 1;
  pthread_mutex_unlock(&c->mutex);
  execute_and_report(c, call);
  pthread_mutex_lock(&c->mutex);
  c->busy = 0;
  if (c->thread_runs) pthread_cond_broadcast(&c->changed);
  pthread_mutex_unlock(&c->mutex);
}

/* ---- life ---- */

int collective_open(int rank, int size, collective **out, int *fd) {
  collective *c = calloc(1, sizeof *c);
  if (!c) return ENOMEM;
  size_t streams = (size_t)size * COLLECTIVE_CHANNELS;
  *c = (collective){.rank = rank, .size = size, .fd = -1, .staging_handle = -1};
  c->control_bytes = sizeof(control) + 2 * streams * sizeof(line);
  c->peers = calloc((size_t)size, sizeof *c->peers);
  c->processes = calloc((size_t)size, sizeof *c->processes);
  c->posted = calloc(2 * streams, sizeof *c->posted);
  int error = c->peers && c->processes && c->posted ? 0 : ENOMEM;
  if (!error && (c->fd = memory_create("verbena-collective", 0)) < 0) error = -c->fd;
  if (!error && ftruncate(c->fd, (off_t)c->control_bytes) != 0) error = errno;
  if (!error) error = memory_reserve(c->fd, 0, c->control_bytes);
  void *base = error ? MAP_FAILED : mmap(NULL, c->control_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, 0);
  if (!error && base == MAP_FAILED) error = errno;
  if (error) {
    if (c->fd >= 0) close(c->fd);
    free(c->peers);
    free(c->processes);
    free(c->posted);
    free(c);
    return error;
  }
  c->taken = c->posted + streams;
  c->own = base;
  c->own->size = size;
  c->own->address = (uint64_t)(uintptr_t)base;
  c->own->magic = MAGIC;
  for (int r = 0; r < size; r++) c->processes[r] = (struct pollfd){.fd = -1, .events = POLLIN};
  c->peers[rank] = (peer){.control = c->own, .pid = getpid()};
  /* Waking a processor that has gone to sleep takes longer than most waits, above all in a virtual machine. Yielding leaves it to whoever has work. */
  int fits = size <= sysconf(_SC_NPROCESSORS_ONLN);
  c->spins = fits ? 1000 : 1;
  c->yields = fits ? 3000 : 100;
  pthread_mutex_init(&c->mutex, NULL);
  pthread_cond_init(&c->changed, NULL);
  *out = c;
  *fd = c->fd;
  return 0;
}

int collective_join(collective *c, int rank, pid_t pid, int fd) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
  int theirs = open(path, O_RDWR | O_CLOEXEC);
  if (theirs < 0) return errno;
  struct stat st;
  int error = fstat(theirs, &st) != 0 ? errno : (size_t)st.st_size == c->control_bytes ? 0 : EPROTO;
  void *base = error ? MAP_FAILED : mmap(NULL, c->control_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, theirs, 0);
  if (!error && base == MAP_FAILED) error = errno;
  close(theirs);
  if (error) return error;
  control *k = base;
  char letter;
  error = k->magic == MAGIC && k->size == c->size ? process_stat(pid, &c->peers[rank].start_time, &letter) : EPROTO;
  int watched = error ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
  if (!error && watched < 0 && errno == ESRCH) error = errno; /* otherwise the kernel has no such call: we look into /proc */
  if (error) {
    munmap(base, c->control_bytes);
    return error;
  }
  int32_t seen = 0;
  if (transfer(pid, (uint8_t *)&seen, k->address, sizeof seen, 0) || seen != MAGIC) c->own->staged = 1; /* a kernel or a container that forbids it */
  c->peers[rank].control = k;
  c->peers[rank].pid = pid;
  c->processes[rank].fd = watched;
  return 0;
}

static void break_off(collective *c, int status) {
  int32_t none = 0;
  if (!load(&c->own->broken)) {
    c->own->culprit = c->rank;
    c->own->passed = c->passed;
    __atomic_compare_exchange_n(&c->own->broken, &none, status, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  }
  __atomic_add_fetch(&c->own->bell, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &c->own->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
  wake_all(c);
}

void collective_abort(collective *c) { break_off(c, CALL_ABORTED); }

int collective_completed(collective *c) { return __atomic_load_n(&c->completed, __ATOMIC_RELAXED); }

int collective_peer(collective *c, int rank) {
  if (rank == c->rank || !c->peers[rank].control) return 0;
  if (is_dead(c, rank)) return 1;
  return load(&c->peers[rank].control->broken) ? 2 : 0;
}

void collective_close(collective *c) {
  break_off(c, CALL_CLOSED);
  if (c->thread_runs) {
    pthread_mutex_lock(&c->mutex);
    c->closing = 1;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->mutex);
    pthread_join(c->thread, NULL);
  }
  for (int r = 0; r < c->size; r++) {
    peer *p = &c->peers[r];
    for (int h = 0; h < REGIONS && r != c->rank; h++)
      if (p->mapped[h]) munmap(p->mapped[h], p->control->regions[h].length);
    if (p->control && r != c->rank) munmap(p->control, c->control_bytes);
    if (c->processes[r].fd >= 0) close(c->processes[r].fd);
  }
  for (int h = 0; h < c->regions; h++) { /* staging areas are ours; what the caller shared is not */
    region *r = &c->own->regions[h];
    if (!c->staged[h]) continue;
    munmap(c->peers[c->rank].mapped[h], r->length);
    close(r->fd);
  }
  munmap(c->own, c->control_bytes);
  close(c->fd);
  pthread_mutex_destroy(&c->mutex);
  pthread_cond_destroy(&c->changed);
  free(c->blocks);
  free(c->peers);
  free(c->processes);
  free(c->posted);
  free(c);
}
