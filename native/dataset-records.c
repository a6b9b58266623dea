/*
 * Fixed-width records. The sort works on entries of 16 bytes (the key's first 12 bytes and the record's number), so records move once, at the end:
 *
 *   entry   hi: key bytes 0..7, big-endian | lo: key bytes 8..11 | index
 *
 * Entries are spread over about n/4 buckets by their place between the smallest and the largest key, and buckets are small enough for insertion;
 * crowded ones are spread again. Keys longer than 12 bytes are compared in the records where entries are equal.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dataset.h"

enum { SMALL = 24, PREFETCH = 12, CHUNK = 256 << 10 };

static inline uint64_t load64(const uint8_t *p) {
  uint64_t v;
  memcpy(&v, p, 8);
  return v;
}

static inline uint64_t rotate(uint64_t v, int by) { return v << by | v >> (64 - by); }

static const uint64_t M1 = 0x9fb21c651e98df25ull, M2 = 0xd6e8feb86659fd93ull;

static inline uint64_t mix(uint64_t v) {
  v ^= v >> 32;
  v *= M2;
  v ^= v >> 32;
  v *= M2;
  return v ^ v >> 32;
}

double dataset_checksum(const uint8_t *bytes, size_t length) {
  uint64_t a = length + 1, b = M1, c = M2, d = ~length;
  size_t i = 0;
  for (; i + 32 <= length; i += 32) {
    a = rotate(a ^ load64(bytes + i), 29) * M1;
    b = rotate(b ^ load64(bytes + i + 8), 31) * M1;
    c = rotate(c ^ load64(bytes + i + 16), 33) * M1;
    d = rotate(d ^ load64(bytes + i + 24), 27) * M1;
  }
  for (; i + 8 <= length; i += 8) a = rotate(a ^ load64(bytes + i), 29) * M1;
  for (; i < length; i++) b = rotate(b ^ bytes[i], 31) * M1;
  return (double)(mix(a ^ rotate(b, 17) ^ rotate(c, 34) ^ rotate(d, 51)) >> 12);
}

/* Up to 16 bytes of a key as two numbers that order as the bytes do. */
typedef struct wide {
  uint64_t hi, lo;
} wide;

static inline wide wide_of(const uint8_t *record, size_t key, size_t width) {
  wide w;
  if (width >= 16) {
    w.hi = __builtin_bswap64(load64(record));
    w.lo = __builtin_bswap64(load64(record + 8));
  } else {
    uint8_t padded[16] = {0};
    memcpy(padded, record, width);
    w.hi = __builtin_bswap64(load64(padded));
    w.lo = __builtin_bswap64(load64(padded + 8));
  }
  if (key < 8) {
    w.hi &= key == 0 ? 0 : ~0ull << (64 - 8 * key);
    w.lo = 0;
  } else if (key < 16) {
    w.lo &= key == 8 ? 0 : ~0ull << (128 - 8 * key);
  }
  return w;
}

void records_partition(const uint8_t *in, size_t n, size_t width, size_t key, const uint8_t *splitters, size_t parts, uint16_t *ids,
                       double *counts, uint8_t *out) {
  const size_t limits = parts - 1;
  wide *limit = malloc((limits + 1) * sizeof *limit);
  uint8_t **next = malloc(parts * sizeof *next);
  size_t *count = calloc(parts, sizeof *count);
  if (!limit || !next || !count) abort();
  for (size_t i = 0; i < limits; i++) limit[i] = wide_of(splitters + i * key, key < 16 ? key : 16, key);
  for (size_t r = 0; r < n; r++) {
    const uint8_t *record = in + r * width;
    __builtin_prefetch(record + 16 * width);
    wide w = wide_of(record, key < 16 ? key : 16, width);
    size_t low = 0, left = limits;
    while (left > 0) {
      size_t half = left >> 1, at = low + half;
      int below = limit[at].hi < w.hi || (limit[at].hi == w.hi && limit[at].lo <= w.lo);
      if (key > 16 && below && limit[at].hi == w.hi && limit[at].lo == w.lo) below = memcmp(splitters + at * key, record, key) <= 0;
      low = below ? at + 1 : low;
      left = below ? left - half - 1 : half;
    }
    ids[r] = (uint16_t)low;
    count[low]++;
  }
  uint8_t *at = out;
  for (size_t p = 0; p < parts; p++) {
    counts[p] = (double)count[p];
    next[p] = at;
    at += count[p] * width;
  }
  for (size_t r = 0; r < n; r++) {
    uint8_t *to = next[ids[r]];
    memcpy(to, in + r * width, width);
    next[ids[r]] = to + width;
  }
  free(limit);
  free(next);
  free(count);
}

typedef struct entry {
  uint64_t hi;
  uint32_t lo, index;
} entry;

typedef struct source {
  const uint8_t *records;
  size_t width, key;
} source;

static inline int before(const entry *a, const entry *b, const source *s) {
  if (a->hi != b->hi) return a->hi < b->hi;
  if (a->lo != b->lo) return a->lo < b->lo;
  if (s->key > 12) {
    int order = memcmp(s->records + (size_t)a->index * s->width + 12, s->records + (size_t)b->index * s->width + 12, s->key - 12);
    if (order != 0) return order < 0;
  }
  return a->index < b->index;
}

static void insertion(entry *e, size_t n, const source *s) {
  for (size_t i = 1; i < n; i++) {
    entry one = e[i];
    size_t at = i;
    for (; at > 0 && before(&one, &e[at - 1], s); at--) e[at] = e[at - 1];
    e[at] = one;
  }
}

static void merge_sort(entry *e, entry *spare, size_t n, const source *s) {
  if (n <= SMALL) {
    insertion(e, n, s);
    return;
  }
  size_t half = n / 2, a = 0, b = half, to = 0;
  merge_sort(e, spare, half, s);
  merge_sort(e + half, spare + half, n - half, s);
  memcpy(spare, e, n * sizeof *e);
  while (a < half && b < n) e[to++] = before(&spare[b], &spare[a], s) ? spare[b++] : spare[a++];
  while (a < half) e[to++] = spare[a++];
  while (b < n) e[to++] = spare[b++];
}

/* Sorts e; spare has the same room, counters room for n/4+2. Depth bounds the spreading of keys that lie very unevenly. */
static void spread_sort(entry *e, entry *spare, uint32_t *counters, size_t n, const source *s, int depth) {
  if (n <= SMALL) {
    insertion(e, n, s);
    return;
  }
  uint64_t min = e[0].hi, max = e[0].hi;
  for (size_t i = 1; i < n; i++) {
    min = e[i].hi < min ? e[i].hi : min;
    max = e[i].hi > max ? e[i].hi : max;
  }
  if (min == max || depth == 0) {
    merge_sort(e, spare, n, s);
    return;
  }
  /* bucket = (hi - min) >> shift, at most n/4 of them */
  int bits = 63 - __builtin_clzll(n / 4);
  int shift = 64 - __builtin_clzll(max - min) - bits;
  if (shift < 0) shift = 0;
  size_t buckets = (size_t)((max - min) >> shift) + 1;
  uint32_t *start = n > 4096 ? malloc((buckets + 1) * sizeof *start) : counters;
  if (!start) abort();
  memset(start, 0, (buckets + 1) * sizeof *start);
  for (size_t i = 0; i < n; i++) start[((e[i].hi - min) >> shift) + 1]++;
  for (size_t b = 1; b <= buckets; b++) start[b] += start[b - 1];
  for (size_t i = 0; i < n; i++) spare[start[(e[i].hi - min) >> shift]++] = e[i];
  memcpy(e, spare, n * sizeof *e);
  size_t from = 0;
  for (size_t b = 0; b < buckets; b++) {
    size_t to = start[b], length = to - from;
    if (length > SMALL) {
      uint32_t inner[1026];
      spread_sort(e + from, spare + from, inner, length, s, depth - 1);
    } else if (length > 1) {
      insertion(e + from, length, s);
    }
    from = to;
  }
  if (start != counters) free(start);
}

static int write_all(int fd, const uint8_t *bytes, size_t length, uint64_t offset) {
  while (length > 0) {
    ssize_t n = pwrite(fd, bytes, length, (off_t)offset);
    if (n < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    bytes += n;
    offset += (uint64_t)n;
    length -= (size_t)n;
  }
  return 0;
}

int records_sort(const uint8_t *in, size_t n, size_t width, size_t key, uint8_t *out, int fd, uint64_t offset) {
  if (n == 0) return 0;
  if (n > UINT32_MAX) return EFBIG;
  const size_t bytes = n * sizeof(entry);
  entry *both = mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (both == MAP_FAILED) return ENOMEM;
  madvise(both, 2 * bytes, MADV_HUGEPAGE);
  entry *e = both, *spare = both + n;
  for (size_t i = 0; i < n; i++) {
    __builtin_prefetch(in + (i + 16) * width);
    wide w = wide_of(in + i * width, key < 12 ? key : 12, width);
    e[i] = (entry){w.hi, (uint32_t)(w.lo >> 32), (uint32_t)i};
  }
  const source s = {in, width, key};
  uint32_t counters[1026];
  spread_sort(e, spare, counters, n, &s, 8);
  int error = 0;
  const size_t at_once = out || width >= CHUNK ? 1 : CHUNK / width;
  uint8_t *stage = out ? NULL : malloc(at_once * width);
  if (!out && !stage) error = ENOMEM;
  if (out) {
    for (size_t i = 0; i < n; i++) {
      if (i + PREFETCH < n) {
        const uint8_t *soon = in + (size_t)e[i + PREFETCH].index * width;
        __builtin_prefetch(soon);
        __builtin_prefetch(soon + 64);
      }
      memcpy(out + i * width, in + (size_t)e[i].index * width, width);
    }
  }
  for (size_t i = 0; !out && !error && i < n;) {
    const size_t count = n - i < at_once ? n - i : at_once;
    for (size_t k = 0; k < count; k++) {
      if (i + k + PREFETCH < n) {
        const uint8_t *soon = in + (size_t)e[i + k + PREFETCH].index * width;
        __builtin_prefetch(soon);
        __builtin_prefetch(soon + 64);
      }
      memcpy(stage + k * width, in + (size_t)e[i + k].index * width, width);
    }
    error = write_all(fd, stage, count * width, offset + i * width);
    i += count;
  }
  free(stage);
  munmap(both, 2 * bytes);
  return error;
}

size_t records_merge(run *runs, size_t count, size_t width, size_t key, uint8_t *out, size_t most) {
  size_t done = 0;
  /* A heap of run numbers, the smallest record first, the earlier run among equals. */
  size_t *heap = malloc((count + 1) * sizeof *heap), size = 0;
  if (!heap) abort();
#define BELOW(a, b) ((order = memcmp(runs[a].at, runs[b].at, key)) < 0 || (order == 0 && (a) < (b)))
  int order;
  for (size_t r = 0; r < count; r++) {
    if (runs[r].at >= runs[r].end) continue;
    size_t at = size++;
    while (at > 0 && BELOW(r, heap[(at - 1) / 2])) {
      heap[at] = heap[(at - 1) / 2];
      at = (at - 1) / 2;
    }
    heap[at] = r;
  }
  while (size > 0 && done < most) {
    size_t r = heap[0];
    memcpy(out + done++ * width, runs[r].at, width);
    runs[r].at += width;
    if (runs[r].at >= runs[r].end) r = heap[--size];
    size_t at = 0;
    for (;;) {
      size_t child = 2 * at + 1;
      if (child >= size) break;
      if (child + 1 < size && BELOW(heap[child + 1], heap[child])) child++;
      if (!BELOW(heap[child], r)) break;
      heap[at] = heap[child];
      at = child;
    }
    if (size > 0) heap[at] = r;
  }
#undef BELOW
  free(heap);
  return done;
}

void records_generate(uint8_t *out, uint64_t first, size_t n, uint64_t seed, int text) {
  static const char hex[] = "0123456789ABCDEF";
  for (size_t i = 0; i < n; i++, out += 100) {
    const uint64_t number = first + i, a = mix(seed ^ (number + 1) * M1), b = mix(a ^ M1);
    uint8_t random[16];
    memcpy(random, &a, 8);
    memcpy(random + 8, &b, 8);
    if (text) {
      for (int k = 0; k < 10; k++) out[k] = (uint8_t)(' ' + random[k] * 95 / 256);
    } else {
      memcpy(out, random, 10);
    }
    out[10] = text ? ' ' : 0x00;
    out[11] = text ? ' ' : 0x11;
    for (int k = 0; k < 32; k++) out[12 + k] = k < 16 ? '0' : (uint8_t)hex[number >> (4 * (31 - k)) & 15];
    for (int k = 0; k < 54; k++) out[44 + k] = (uint8_t)hex[(a >> (k % 13) * 4 ^ (uint64_t)k) & 15];
    out[98] = text ? '\r' : 0xEE;
    out[99] = text ? '\n' : 0xFF;
  }
}

void records_check(const uint8_t *in, size_t n, size_t width, size_t key, uint8_t *last, int has_last, record_check *out) {
  uint64_t sum = 0;
  const uint8_t *previous = has_last ? last : NULL;
  for (size_t i = 0; i < n; i++) {
    const uint8_t *record = in + i * width;
    sum += (uint64_t)dataset_checksum(record, width);
    int order = previous ? memcmp(previous, record, key) : -1;
    out->inversions += order > 0;
    out->duplicates += order == 0;
    previous = record;
  }
  if (n > 0) memcpy(last, in + (n - 1) * width, key);
  out->sum = (double)(((uint64_t)out->sum + sum) & ((1ull << 52) - 1));
}
