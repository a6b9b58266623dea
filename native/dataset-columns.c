/*
 * Numeric columns: partitioning by hash, grouping, joining, ordering.
 *
 * Grouping and joining first bring rows of the same part of the hash together (one pass), so that the table of a part fits in the cache, and only
 * then look keys up. Tables are open addressing over the part's distinct keys.
 *
 *   hash(key)   [ part: the top bits | ............ | place in the table of the part: the low bits ]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "dataset.h"

enum { ROWS_OF_A_PART = 32 << 10, MOST_PARTS = 65536, PREFETCH = 16 };

static inline uint64_t hash(uint64_t key) {
  key *= 0x9e3779b97f4a7c15ull;
  key ^= key >> 32;
  return key * 0xd6e8feb86659fd93ull;
}

size_t column_width(column_type type) {
  switch (type) {
    case COLUMN_U8:
      return 1;
    case COLUMN_F64:
    case COLUMN_I64:
      return 8;
    default:
      return 4;
  }
}

/* The bits of a key; both zeros of a float are one key. */
static inline uint64_t bits_at(const void *keys, column_type type, size_t i) {
  switch (type) {
    case COLUMN_U8:
      return ((const uint8_t *)keys)[i];
    case COLUMN_F64: {
      double v = ((const double *)keys)[i] + 0.0;
      uint64_t bits;
      memcpy(&bits, &v, 8);
      return bits;
    }
    case COLUMN_F32: {
      float v = ((const float *)keys)[i] + 0.0f;
      uint32_t bits;
      memcpy(&bits, &v, 4);
      return bits;
    }
    case COLUMN_I64:
      return ((const uint64_t *)keys)[i];
    default:
      return ((const uint32_t *)keys)[i];
  }
}

static inline double value_at(const void *values, column_type type, size_t i) {
  switch (type) {
    case COLUMN_U8:
      return ((const uint8_t *)values)[i];
    case COLUMN_I32:
      return ((const int32_t *)values)[i];
    case COLUMN_U32:
      return ((const uint32_t *)values)[i];
    case COLUMN_F32:
      return (double)((const float *)values)[i];
    case COLUMN_I64:
      return (double)((const int64_t *)values)[i];
    default:
      return ((const double *)values)[i];
  }
}

static inline size_t part_of(uint64_t h, int bits) { return bits == 0 ? 0 : (size_t)(h >> (64 - bits)); }

static int log2_of(size_t parts) { return 63 - __builtin_clzll(parts); }

#define FOR_TYPE(type, body)                      \
  switch (type) {                                 \
    case COLUMN_U8: { const column_type T = COLUMN_U8; body } break;   \
    case COLUMN_F64: { const column_type T = COLUMN_F64; body } break; \
    case COLUMN_F32: { const column_type T = COLUMN_F32; body } break; \
    case COLUMN_I64: { const column_type T = COLUMN_I64; body } break; \
    case COLUMN_I32: { const column_type T = COLUMN_I32; body } break; \
    default: { const column_type T = COLUMN_U32; body }    \
  }

void columns_hash_ids(const void *keys, column_type type, size_t n, size_t parts, uint16_t *ids, double *counts) {
  const int bits = log2_of(parts);
  uint32_t *count = calloc(parts, sizeof *count);
  if (!count) abort();
  FOR_TYPE(type, for (size_t i = 0; i < n; i++) {
    size_t p = part_of(hash(bits_at(keys, T, i)), bits);
    ids[i] = (uint16_t)p;
    count[p]++;
  })
  for (size_t p = 0; p < parts; p++) counts[p] = count[p];
  free(count);
}

#define SCATTER(kind)                                                      \
  {                                                                        \
    const kind *from = in;                                                 \
    kind *to = out;                                                        \
    for (size_t i = 0; i < n; i++) to[next[ids[i]]++] = from[i];           \
  }

void columns_scatter(const void *in, size_t width, size_t n, const uint16_t *ids, size_t parts, const double *starts, void *out) {
  uint64_t *next = malloc(parts * sizeof *next);
  if (!next) abort();
  for (size_t p = 0; p < parts; p++) next[p] = (uint64_t)starts[p];
  if (width == 8) SCATTER(uint64_t)
  else if (width == 4) SCATTER(uint32_t)
  else SCATTER(uint8_t)
  free(next);
}

/* ---- memory that is taken and given back in one piece ---- */

static void *take(size_t bytes) {
  void *p = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return NULL;
  madvise(p, bytes + 1, MADV_HUGEPAGE);
  return p;
}

static void give(void *p, size_t bytes) {
  if (p) munmap(p, bytes + 1);
}

/* ---- grouping ---- */

/* The table of one part: slots hold the group's number + 1. */
typedef struct table {
  uint32_t *slots;
  size_t size; /* a power of two */
} table;

static int reset(table *t, size_t rows) {
  size_t want = 64;
  while (want < rows * 2) want *= 2;
  if (want > t->size) {
    free(t->slots);
    t->slots = malloc(want * sizeof *t->slots);
    t->size = t->slots ? want : 0;
    if (!t->slots) return ENOMEM;
  }
  memset(t->slots, 0, want * sizeof *t->slots);
  return 0;
}

static inline void start_group(const aggregate *a, size_t g, double v) { a->out[g] = a->op == AGGREGATE_COUNT ? (a->values ? v : 1) : v; }

static inline void add_to_group(const aggregate *a, size_t g, double v) {
  switch (a->op) {
    case AGGREGATE_SUM:
      a->out[g] += v;
      break;
    case AGGREGATE_COUNT:
      a->out[g] += a->values ? v : 1;
      break;
    case AGGREGATE_MIN:
      if (!(a->out[g] <= v)) a->out[g] = v;
      break;
    default:
      if (!(a->out[g] >= v)) a->out[g] = v;
  }
}

#define STORE_KEY(g, bits)                                       \
  if (T == COLUMN_U8) ((uint8_t *)out_keys)[g] = (uint8_t)(bits); \
  else if (T == COLUMN_F64 || T == COLUMN_I64) ((uint64_t *)out_keys)[g] = bits; \
  else ((uint32_t *)out_keys)[g] = (uint32_t)(bits);

/* Groups rows [0, n) of one part; new groups are numbered from `first`. The group of each row goes to `of_row`. Returns the number after the last. */
static size_t group_part(const void *keys, column_type type, size_t n, table *t, void *out_keys, size_t first, uint32_t *of_row) {
  size_t size = 64, groups = first;
  while (size < n * 2) size *= 2;
  const size_t mask = size - 1;
  uint32_t *slots = t->slots;
  FOR_TYPE(type, for (size_t i = 0; i < n; i++) {
    const uint64_t bits = bits_at(keys, T, i);
    size_t at = hash(bits) & mask;
    for (;;) {
      const uint32_t slot = slots[at];
      if (slot == 0) {
        slots[at] = (uint32_t)(groups - first) + 1;
        STORE_KEY(groups, bits)
        of_row[i] = (uint32_t)groups++;
        break;
      }
      if (bits_at(out_keys, T, first + slot - 1) == bits) {
        of_row[i] = (uint32_t)(first + slot - 1);
        break;
      }
      at = (at + 1) & mask;
    }
  })
  return groups;
}

static void fold_part(const aggregate *a, const void *values, size_t n, const uint32_t *of_row, size_t first) {
  size_t seen = first; /* groups appear in order, so a row starts one exactly when it names the next number */
  if (a->op == AGGREGATE_COUNT && !a->values) {
    for (size_t i = 0; i < n; i++) {
      if (of_row[i] == seen) a->out[seen++] = 1;
      else a->out[of_row[i]] += 1;
    }
    return;
  }
  if (a->op == AGGREGATE_SUM && a->type == COLUMN_F64) {
    const double *v = values;
    for (size_t i = 0; i < n; i++) {
      if (of_row[i] == seen) a->out[seen++] = v[i];
      else a->out[of_row[i]] += v[i];
    }
    return;
  }
  for (size_t i = 0; i < n; i++) {
    const double v = value_at(values, a->type, i);
    if (of_row[i] == seen) start_group(a, seen++, v);
    else add_to_group(a, of_row[i], v);
  }
}

size_t columns_aggregate(const void *keys, column_type type, size_t n, aggregate *aggregates, size_t count, size_t parts, void *out_keys,
                         double *groups) {
  const size_t key_width = column_width(type);
  size_t inner = parts;
  while (inner < MOST_PARTS && n / inner > ROWS_OF_A_PART) inner *= 2;
  const int bits = log2_of(inner);
  const size_t bytes = n * (2 + 8 + 8 + 4) + 64;
  uint8_t *scratch = take(bytes);
  double *starts = malloc((inner + 1) * sizeof *starts), *sizes = malloc(inner * sizeof *sizes), *firsts = malloc((inner + 1) * sizeof *firsts);
  table t = {NULL, 0};
  size_t total = SIZE_MAX;
  if (!scratch || !starts || !sizes || !firsts) goto done;
  void *moved_keys = scratch, *moved = scratch + n * 8;
  uint32_t *of_row = (uint32_t *)(scratch + n * 16);
  uint16_t *ids = (uint16_t *)(scratch + n * 20);
  if (bits > 0) {
    columns_hash_ids(keys, type, n, inner, ids, sizes);
    starts[0] = 0;
    for (size_t p = 0; p < inner; p++) starts[p + 1] = starts[p] + sizes[p];
    columns_scatter(keys, key_width, n, ids, inner, starts, moved_keys);
  } else {
    starts[0] = 0;
    starts[1] = (double)n;
    moved_keys = (void *)(uintptr_t)keys;
  }
  total = 0;
  for (size_t p = 0; p < parts; p++) groups[p] = 0;
  for (size_t p = 0; p < inner; p++) {
    const size_t from = (size_t)starts[p], rows = (size_t)(starts[p + 1] - starts[p]);
    firsts[p] = (double)total;
    if (reset(&t, rows)) {
      total = SIZE_MAX;
      goto done;
    }
    const size_t after = group_part((uint8_t *)moved_keys + from * key_width, type, rows, &t, out_keys, total, of_row + from);
    groups[p / (inner / parts)] += (double)(after - total);
    total = after;
  }
  for (size_t a = 0; a < count; a++) {
    const size_t width = column_width(aggregates[a].type);
    const void *values = aggregates[a].values;
    if (values && bits > 0) {
      columns_scatter(values, width, n, ids, inner, starts, moved);
      values = moved;
    }
    for (size_t p = 0; p < inner; p++) {
      const size_t from = (size_t)starts[p], rows = (size_t)(starts[p + 1] - starts[p]);
      fold_part(&aggregates[a], values ? (const uint8_t *)values + from * width : NULL, rows, of_row + from, (size_t)firsts[p]);
    }
  }
done:
  free(t.slots);
  free(starts);
  free(sizes);
  free(firsts);
  give(scratch, bytes);
  return total;
}

/* ---- joining ---- */

typedef struct side {
  uint64_t *keys;   /* by part */
  uint32_t *rows;   /* their rows in the column */
  double *starts;
} side;

static void arrange(const void *keys, column_type type, size_t n, size_t parts, uint16_t *ids, double *sizes, side *s) {
  columns_hash_ids(keys, type, n, parts, ids, sizes);
  s->starts[0] = 0;
  for (size_t p = 0; p < parts; p++) s->starts[p + 1] = s->starts[p] + sizes[p];
  uint32_t *next = malloc(parts * sizeof *next);
  if (!next) abort();
  for (size_t p = 0; p < parts; p++) next[p] = (uint32_t)s->starts[p];
  FOR_TYPE(type, for (size_t i = 0; i < n; i++) {
    const uint32_t to = next[ids[i]]++;
    s->keys[to] = bits_at(keys, T, i);
    s->rows[to] = (uint32_t)i;
  })
  free(next);
}

size_t columns_join(const void *left, size_t n, const void *right, size_t m, column_type type, uint32_t *out_left, uint32_t *out_right,
                    size_t room) {
  const size_t most = n > m ? n : m, small = n < m ? n : m;
  if (small == 0) return 0;
  size_t parts = 1;
  while (parts < 4096 && small / parts > ROWS_OF_A_PART / 4) parts *= 2;
  const size_t bytes = (n + m) * 12 + most * 2 + (parts + 1) * 24 + small * 4 + 64;
  uint8_t *scratch = take(bytes);
  if (!scratch) return SIZE_MAX;
  uint8_t *at = scratch;
  side l = {.keys = (uint64_t *)at}, r = {.keys = (uint64_t *)(at + n * 8)};
  at += (n + m) * 8;
  l.starts = (double *)at;
  r.starts = l.starts + parts + 1;
  double *sizes = r.starts + parts + 1;
  at += (parts + 1) * 24;
  l.rows = (uint32_t *)at;
  r.rows = l.rows + n;
  uint32_t *next = r.rows + m;
  uint16_t *ids = (uint16_t *)(next + small);
  arrange(left, type, n, parts, ids, sizes, &l);
  arrange(right, type, m, parts, ids, sizes, &r);
  /* The smaller side is in the table; matches come in the order of the other side, then of this one. */
  const int build_right = m <= n;
  const side *build = build_right ? &r : &l, *probe = build_right ? &l : &r;
  table t = {NULL, 0};
  size_t found = 0;
  for (size_t p = 0; p < parts; p++) {
    const size_t from = (size_t)build->starts[p], rows = (size_t)(build->starts[p + 1] - build->starts[p]);
    if (rows == 0) continue;
    if (reset(&t, rows)) {
      found = SIZE_MAX;
      break;
    }
    size_t size = 64;
    while (size < rows * 2) size *= 2;
    const size_t mask = size - 1;
    /* Chains of equal slots, built from the back so that they run forward. */
    for (size_t i = rows; i-- > 0;) {
      const size_t slot = hash(build->keys[from + i]) & mask;
      next[i] = t.slots[slot];
      t.slots[slot] = (uint32_t)i + 1;
    }
    for (size_t i = (size_t)probe->starts[p]; i < (size_t)probe->starts[p + 1]; i++) {
      const uint64_t key = probe->keys[i];
      for (uint32_t c = t.slots[hash(key) & mask]; c != 0; c = next[c - 1]) {
        if (build->keys[from + c - 1] != key) continue;
        if (found < room) {
          const uint32_t b = build->rows[from + c - 1], q = probe->rows[i];
          out_left[found] = build_right ? q : b;
          out_right[found] = build_right ? b : q;
        }
        found++;
      }
    }
  }
  free(t.slots);
  give(scratch, bytes);
  return found;
}

/* ---- ordering ---- */

/* Unsigned numbers that order as the values do; NaN is above everything. */
static inline uint64_t ordered(const void *keys, column_type type, size_t i) {
  const uint64_t top = 1ull << 63;
  switch (type) {
    case COLUMN_U8:
      return ((const uint8_t *)keys)[i];
    case COLUMN_I32:
      return (uint64_t)((int64_t)((const int32_t *)keys)[i]) ^ top;
    case COLUMN_U32:
      return ((const uint32_t *)keys)[i];
    case COLUMN_I64:
      return ((const uint64_t *)keys)[i] ^ top;
    default: {
      double v = type == COLUMN_F32 ? (double)((const float *)keys)[i] : ((const double *)keys)[i];
      if (isnan(v)) return UINT64_MAX;
      v += 0.0;
      uint64_t bits;
      memcpy(&bits, &v, 8);
      return bits & top ? ~bits : bits | top;
    }
  }
}

int columns_order(const void *keys, column_type type, size_t n, int descending, uint32_t *order) {
  if (n == 0) return 0;
  typedef struct pair {
    uint64_t key;
    uint32_t row;
  } pair;
  const size_t bytes = 2 * n * sizeof(pair);
  pair *a = take(bytes);
  if (!a) return ENOMEM;
  pair *b = a + n;
  const int is_float = type == COLUMN_F32 || type == COLUMN_F64;
  uint64_t any = 0, all = ~0ull;
  for (size_t i = 0; i < n; i++) {
    uint64_t k = ordered(keys, type, i);
    if (descending && !(is_float && k == UINT64_MAX)) k = ~k; /* what is no number is last all the same */
    a[i] = (pair){k, (uint32_t)i};
    any |= k;
    all &= k;
  }
  /* Least significant digit first, only the digits in which keys differ. */
  for (int shift = 0; shift < 64; shift += 11) {
    if (((any ^ all) >> shift & 2047) == 0) continue;
    uint32_t start[2049] = {0};
    for (size_t i = 0; i < n; i++) start[(a[i].key >> shift & 2047) + 1]++;
    for (int d = 1; d <= 2048; d++) start[d] += start[d - 1];
    for (size_t i = 0; i < n; i++) b[start[a[i].key >> shift & 2047]++] = a[i];
    pair *swap = a;
    a = b;
    b = swap;
  }
  for (size_t i = 0; i < n; i++) order[i] = a[i].row;
  give(a < b ? a : b, bytes);
  return 0;
}

#define GATHER(kind)                                                                   \
  {                                                                                    \
    const kind *from = in;                                                             \
    kind *to = out;                                                                    \
    for (size_t i = 0; i < n; i++) {                                                   \
      if (i + PREFETCH < n) __builtin_prefetch(from + rows[i + PREFETCH]);             \
      to[i] = from[rows[i]];                                                           \
    }                                                                                  \
  }

void columns_gather(const void *in, size_t width, const uint32_t *rows, size_t n, void *out) {
  if (width == 8) GATHER(uint64_t)
  else if (width == 4) GATHER(uint32_t)
  else GATHER(uint8_t)
}
