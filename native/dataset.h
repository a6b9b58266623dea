/*
 * What datasets do natively: fixed-width records, numeric columns, words. Plain C on memory that the caller owns; nothing here knows Node or ranks.
 *
 * Every result is a function of the input and its order alone: the same input gives the same bytes on every rank and at every attempt. So a lost
 * task can be computed again elsewhere, and nobody sees a difference.
 */
#ifndef VERBENA_DATASET_H
#define VERBENA_DATASET_H

#include <stddef.h>
#include <stdint.h>

/* ---- records: n records of `width` bytes, ordered by their first `key` bytes as unsigned bytes ---- */

/* 52 bits over all bytes, so that a double carries them. */
double dataset_checksum(const uint8_t *bytes, size_t length);

/*
 * Range partitioning. `splitters`: parts-1 keys of `key` bytes, ascending; a record goes to the number of splitters that are not above it. Writes
 * the records to `out`, partition after partition, in their order; counts[p] becomes the records of p. `ids`: n scratch numbers.
 */
void records_partition(const uint8_t *in, size_t n, size_t width, size_t key, const uint8_t *splitters, size_t parts, uint16_t *ids,
                       double *counts, uint8_t *out);

/* Stable sort. Writes to `out`, or to descriptor `fd` at `offset` when out is NULL. Returns 0 or an errno. */
int records_sort(const uint8_t *in, size_t n, size_t width, size_t key, uint8_t *out, int fd, uint64_t offset);

/* A part of the records of a merge: [at, end), moved forward as records are taken. */
typedef struct run {
  const uint8_t *at, *end;
} run;

/* Takes up to `most` records from sorted runs, smallest first, earlier runs first among equals. Returns how many. */
size_t records_merge(run *runs, size_t count, size_t width, size_t key, uint8_t *out, size_t most);

/* Records of the sort benchmark's shape, 100 bytes, a function of their number and the seed. `text`: printable, one a line. */
void records_generate(uint8_t *out, uint64_t first, size_t n, uint64_t seed, int text);

/* Adds each record's own checksum up (independent of order) and counts records below their predecessor. `last`: the key before, updated. */
typedef struct record_check {
  double sum, inversions, duplicates;
} record_check;
void records_check(const uint8_t *in, size_t n, size_t width, size_t key, uint8_t *last, int has_last, record_check *out);

/* ---- columns ---- */

typedef enum { COLUMN_I32, COLUMN_U32, COLUMN_F32, COLUMN_F64, COLUMN_I64, COLUMN_U8 } column_type;
typedef enum { AGGREGATE_SUM, AGGREGATE_COUNT, AGGREGATE_MIN, AGGREGATE_MAX } aggregate_op;

size_t column_width(column_type type);

/* Which of `parts` (a power of two, at most 65536) each key belongs to, and how many keys each has. */
void columns_hash_ids(const void *keys, column_type type, size_t n, size_t parts, uint16_t *ids, double *counts);
/* Moves the values of a column into the order of their parts. starts[p]: where part p begins in out, elements. */
void columns_scatter(const void *in, size_t width, size_t n, const uint16_t *ids, size_t parts, const double *starts, void *out);

typedef struct aggregate {
  aggregate_op op;
  column_type type;  /* of the values; ignored for count without values */
  const void *values;
  double *out;
} aggregate;

/*
 * Groups by key. Writes the distinct keys to out_keys and the aggregates beside them, ordered by part of the hash (parts: a power of two up to
 * 65536), within a part in the order of first appearance. groups[p]: the groups of part p. Room for n groups. Returns the groups, or SIZE_MAX
 * without memory.
 */
size_t columns_aggregate(const void *keys, column_type type, size_t n, aggregate *aggregates, size_t count, size_t parts, void *out_keys,
                         double *groups);

/*
 * Inner equi-join of two key columns. Writes pairs of row numbers, up to `room`; returns how many there are, or SIZE_MAX without memory. When
 * that is more than room, call again with more.
 */
size_t columns_join(const void *left, size_t n, const void *right, size_t m, column_type type, uint32_t *out_left, uint32_t *out_right,
                    size_t room);

/* Row numbers in ascending (or descending) order of the column, stable; NaN is last. Returns 0 or ENOMEM. */
int columns_order(const void *keys, column_type type, size_t n, int descending, uint32_t *order);
void columns_gather(const void *in, size_t width, const uint32_t *rows, size_t n, void *out);

/* ---- words: how often each of many short strings occurs ---- */

typedef struct words words;

words *words_open(void);
/* Adds the words of a text: what lies between bytes up to 0x20. Returns 0 or ENOMEM. */
int words_add_text(words *w, const uint8_t *text, size_t length);
/* Adds those entries of words_write that belong to one of `parts` parts of the hash. Returns 0, ENOMEM, or EBADMSG for what is none. */
int words_add_entries(words *w, const uint8_t *entries, size_t length, size_t parts, size_t part);
size_t words_count(const words *w);
/* Bytes of the entries of each of `parts` (at most 65536) parts of the hash. */
void words_sizes(const words *w, size_t parts, double *sizes);
/* Writes entries {u32 length, u32 0, u64 count, bytes padded to 8}, part after part, in the order of first appearance. */
int words_write(const words *w, size_t parts, uint8_t *out);
void words_close(words *w);

/* ---- the table: kernels by number, arguments as doubles, as in kernel-table.h ---- */

enum {
  DATASET_CHECKSUM,
  DATASET_RECORDS_PARTITION,
  DATASET_RECORDS_SORT,
  DATASET_RECORDS_MERGE,
  DATASET_RECORDS_GENERATE,
  DATASET_RECORDS_CHECK,
  DATASET_HASH_IDS,
  DATASET_SCATTER,
  DATASET_AGGREGATE,
  DATASET_JOIN,
  DATASET_ORDER,
  DATASET_GATHER,
  DATASET_WORDS_OPEN,
  DATASET_WORDS_ADD_TEXT,
  DATASET_WORDS_ADD_ENTRIES,
  DATASET_WORDS_COUNT,
  DATASET_WORDS_SIZES,
  DATASET_WORDS_WRITE,
  DATASET_WORDS_CLOSE,
  DATASET_READ,
};

/* call[0] which, call[1..] arguments; results from call[1] on. Returns 0 or an errno. May run on any thread. */
int dataset_call(double *call);

#endif
