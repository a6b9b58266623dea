/*
 * Mapped memory: segments (memfds or unlinked files) and copies between address spaces.
 *
 * Functions return 0 or a positive errno; nothing here knows JavaScript.
 */
#ifndef VERBENA_MEMORY_H
#define VERBENA_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* One mmap. Several views may refer to it; the last one unmaps. */
typedef struct mapping {
  uint8_t *base;
  size_t length;
  int fd;         /* the segment's, closed by who made the mapping; -1 when somebody else has it */
  int references; /* atomic */
} mapping;

/* A nameless segment of the memory file system; huge selects huge pages. Returns the descriptor, or -errno. */
int memory_create(const char *name, int huge);
/* The same in a mounted memory file system (O_TMPFILE: it never has a name). */
int memory_create_in(const char *directory);
/* Reserves the pages of a range now, so that a full file system is an error here and not a SIGBUS later. */
int memory_reserve(int fd, uint64_t offset, uint64_t length);
/* The same with pages of this NUMA node, as long as it has some: by the thread's policy, which is put back. EINVAL: there is no such node. */
int memory_reserve_near(int fd, uint64_t offset, uint64_t length, int node);
/* Gives the pages of a range back; the range reads as zero afterwards. */
int memory_release(int fd, uint64_t offset, uint64_t length);
/* Maps a range of fd. */
int memory_map(int fd, uint64_t offset, size_t length, int writable, mapping **out);
void mapping_retain(mapping *m);
void mapping_release(mapping *m);

/* Copies between this process and another one through the kernel: one copy, without the target's CPU. */
int memory_write_process(pid_t pid, uint64_t remote, const void *local, size_t length);
int memory_read_process(pid_t pid, uint64_t remote, void *local, size_t length);

/*
 * Barriers for two sides of unequal haste. Who is in a hurry (a producer looking at `armed`, an initiator announcing a key) uses plain
 * stores and loads; who has time (arming, deregistering) calls memory_barrier, which makes every running thread of every registered process
 * pass a full barrier. Returns 0, or an errno where the kernel has no such call.
 */
int memory_register_barrier(void);
int memory_barrier(void);

/* 64-bit atomics, sequentially consistent. Return the old value. */
uint64_t memory_fetch_add(uint64_t *word, uint64_t add);
uint64_t memory_compare_swap(uint64_t *word, uint64_t compare, uint64_t swap);

#endif
