#define _GNU_SOURCE
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

int memory_create(const char *name, int huge) {
  int fd = memfd_create(name, MFD_CLOEXEC | (huge ? MFD_HUGETLB : 0));
  return fd < 0 ? -errno : fd;
}

int memory_create_in(const char *directory) {
  int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  return fd < 0 ? -errno : fd;
}

int memory_reserve(int fd, uint64_t offset, uint64_t length) {
  for (;;) {
    if (fallocate(fd, 0, (off_t)offset, (off_t)length) == 0) return 0;
    if (errno != EINTR) return errno;
  }
}

int memory_reserve_near(int fd, uint64_t offset, uint64_t length, int node) {
  enum { NODES = 1024, BITS = 8 * sizeof(unsigned long) };
  unsigned long before[NODES / BITS] = {0}, wanted[NODES / BITS] = {0};
  int mode;
  if (node < 0 || node >= NODES) return EINVAL;
  wanted[node / BITS] = 1ul << (node % BITS);
  if (syscall(SYS_get_mempolicy, &mode, before, NODES + 1, NULL, 0) != 0) return errno;
  if (syscall(SYS_set_mempolicy, MPOL_PREFERRED, wanted, NODES + 1) != 0) return errno;
  int error = memory_reserve(fd, offset, length);
  syscall(SYS_set_mempolicy, mode, before, NODES + 1);
  return error;
}

int memory_release(int fd, uint64_t offset, uint64_t length) {
  if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)length) == 0) return 0;
  return errno;
}

int memory_map(int fd, uint64_t offset, size_t length, int writable, mapping **out) {
  mapping *m = malloc(sizeof *m);
  if (!m) return ENOMEM;
  void *base = mmap(NULL, length, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, (off_t)offset);
  if (base == MAP_FAILED) {
    int error = errno;
    free(m);
    return error;
  }
  m->base = base;
  m->length = length;
  m->fd = -1;
  m->references = 1;
  *out = m;
  return 0;
}

void mapping_retain(mapping *m) { __atomic_add_fetch(&m->references, 1, __ATOMIC_RELAXED); }

void mapping_release(mapping *m) {
  if (__atomic_sub_fetch(&m->references, 1, __ATOMIC_ACQ_REL) > 0) return;
  munmap(m->base, m->length);
  free(m);
}

/* process_vm_* may stop early at a page it cannot reach: go on until all is moved or nothing moves. */
static int move(pid_t pid, uint64_t remote, uint8_t *local, size_t length, int write) {
  while (length > 0) {
    struct iovec l = {local, length}, r = {(void *)(uintptr_t)remote, length};
    ssize_t n = write ? process_vm_writev(pid, &l, 1, &r, 1, 0) : process_vm_readv(pid, &l, 1, &r, 1, 0);
    if (n < 0) return errno;
    if (n == 0) return EFAULT;
    local += n;
    remote += (uint64_t)n;
    length -= (size_t)n;
  }
  return 0;
}

int memory_write_process(pid_t pid, uint64_t remote, const void *local, size_t length) {
  return move(pid, remote, (uint8_t *)local, length, 1);
}

int memory_read_process(pid_t pid, uint64_t remote, void *local, size_t length) {
  return move(pid, remote, local, length, 0);
}

/*
 * Lets another address space run on every CPU once. The kernel notes per CPU whether the process there is registered, and renews the note only when
 * the address space changes; a CPU that idled with ours since before the registration would never be told to pass a barrier (seen: a few lost
 * orders in 20,000). The child has no exit signal, runs nothing but system calls, and is waited for.
 */
static int tour_cpus(void) {
  long cpus = sysconf(_SC_NPROCESSORS_CONF);
  pid_t child = (pid_t)syscall(SYS_clone, 0, 0, 0, 0, 0);
  if (child < 0) return errno;
  if (child == 0) {
    for (long cpu = 0; cpu < cpus && cpu < CPU_SETSIZE; cpu++) {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(cpu, &set);
      syscall(SYS_sched_setaffinity, 0, sizeof set, &set);
    }
    syscall(SYS_exit_group, 0);
  }
  while (waitpid(child, NULL, __WALL) < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

static int registered; /* errno, valid after the once */

static void register_once(void) {
  registered = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0) == 0 ? tour_cpus() : errno;
}

int memory_register_barrier(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, register_once);
  return registered;
}

int memory_barrier(void) { return syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0) == 0 ? 0 : errno; }

uint64_t memory_fetch_add(uint64_t *word, uint64_t add) { return __atomic_fetch_add(word, add, __ATOMIC_SEQ_CST); }

uint64_t memory_compare_swap(uint64_t *word, uint64_t compare, uint64_t swap) {
  __atomic_compare_exchange_n(word, &compare, swap, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return compare;
}
