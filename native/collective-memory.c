/* Memory of peers: mapped, private, staged. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "collective-parts.h"
#include "memory.h"
#include "reduce.h"

enum { STREAMED = 4 << 20 };

uint8_t *co_reach(collective *c, int rank, int64_t handle, uint64_t offset) {
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

int co_reaches_private(collective *c) {
  if (c->sequence < 1) return 0;
  for (int r = 0; r < c->size; r++)
    if (c->peers[r].control->staged) return 0;
  return 1;
}

place co_place_of(collective *c, const collective_buffer *buffer) {
  if (buffer->handle < 0) return (place){PRIVATE, (uint64_t)(uintptr_t)buffer->address};
  return (place){buffer->handle, (uint64_t)(buffer->address - c->peers[c->rank].mapped[buffer->handle])};
}

int co_transfer(pid_t pid, uint8_t *own, uint64_t there, uint64_t length, int writes) {
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

uint8_t *co_blocks(collective *c, size_t bytes) {
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

int co_staging(collective *c, size_t bytes) {
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

void co_store(const collective_call *call, uint8_t *to, const piece target[2], const uint8_t *from, const piece source[2], int reduces, int finishes) {
  for (int i = 0; i < 2; i++) {
    if (!target[i].length) continue;
    if (reduces)
      reduce_into(call->type, call->op, to + target[i].offset, from + source[i].offset, target[i].length / reduce_width(call->type),
                  finishes ? call->divisor : 1);
    else move(to + target[i].offset, from + source[i].offset, target[i].length);
  }
}

int co_access(collective *c, const collective_call *call, int rank, place where, const piece there[2], uint8_t *base, const piece own[2], enum access access,
                       int finishes) {
  if (where.handle != PRIVATE) {
    uint8_t *remote = co_reach(c, rank, where.handle, where.offset);
    if (!remote) return -1;
    if (access == PUT) co_store(call, remote, there, base, own, 0, 0);
    else co_store(call, base, own, remote, there, access == FETCH_REDUCE, finishes);
    return 0;
  }
  for (int i = 0; i < 2; i++) {
    uint8_t *local = base + own[i].offset;
    uint64_t far = where.offset + there[i].offset;
    if (access != FETCH_REDUCE) {
      if (co_transfer(c->peers[rank].pid, local, far, own[i].length, access == PUT)) return -1;
      continue;
    }
    uint8_t *block = co_blocks(c, BLOCK);
    if (!block) return -1;
    for (uint64_t at = 0; at < own[i].length; at += BLOCK) {
      uint64_t n = own[i].length - at < BLOCK ? own[i].length - at : BLOCK;
      if (co_transfer(c->peers[rank].pid, block, far + at, n, 0)) return -1;
      reduce_into(call->type, call->op, local + at, block, n / reduce_width(call->type), finishes ? call->divisor : 1);
    }
  }
  return 0;
}
