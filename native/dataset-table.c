#define _GNU_SOURCE
#include <errno.h>
#include <unistd.h>

#include "dataset.h"

#define AT(i) ((void *)(uintptr_t)a[i])
#define SIZE(i) ((size_t)a[i])
#define INT(i) ((int)a[i])

static int read_all(int fd, uint8_t *to, size_t length, uint64_t offset, double *done) {
  size_t got = 0;
  while (got < length) {
    ssize_t n = pread(fd, to + got, length - got, (off_t)(offset + got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) break;
    got += (size_t)n;
  }
  *done = (double)got;
  return 0;
}

int dataset_call(double *call) {
  double *a = call + 1;
  switch (SIZE(-1)) {
    case DATASET_CHECKSUM:
      a[0] = dataset_checksum(AT(0), SIZE(1));
      return 0;
    case DATASET_RECORDS_PARTITION:
      records_partition(AT(0), SIZE(1), SIZE(2), SIZE(3), AT(4), SIZE(5), AT(6), AT(7), AT(8));
      return 0;
    case DATASET_RECORDS_SORT:
      return records_sort(AT(0), SIZE(1), SIZE(2), SIZE(3), AT(4), INT(5), (uint64_t)a[6]);
    case DATASET_RECORDS_MERGE: {
      /* The runs come as pairs of doubles and go back the same way. */
      double *pairs = AT(0);
      run runs[256];
      const size_t count = SIZE(1);
      if (count > 256) return E2BIG;
      for (size_t i = 0; i < count; i++)
        runs[i] = (run){(const uint8_t *)(uintptr_t)pairs[2 * i], (const uint8_t *)(uintptr_t)pairs[2 * i + 1]};
      a[0] = (double)records_merge(runs, count, SIZE(2), SIZE(3), AT(4), SIZE(5));
      for (size_t i = 0; i < count; i++) pairs[2 * i] = (double)(uintptr_t)runs[i].at;
      return 0;
    }
    case DATASET_RECORDS_GENERATE:
      records_generate(AT(0), (uint64_t)a[1], SIZE(2), (uint64_t)a[3], INT(4));
      return 0;
    case DATASET_RECORDS_CHECK: {
      record_check check = {0, 0, 0};
      records_check(AT(0), SIZE(1), SIZE(2), SIZE(3), AT(4), INT(5), &check);
      a[0] = check.sum;
      a[1] = check.inversions;
      a[2] = check.duplicates;
      return 0;
    }
    case DATASET_HASH_IDS:
      columns_hash_ids(AT(0), (column_type)INT(1), SIZE(2), SIZE(3), AT(4), AT(5));
      return 0;
    case DATASET_SCATTER:
      columns_scatter(AT(0), SIZE(1), SIZE(2), AT(3), SIZE(4), AT(5), AT(6));
      return 0;
    case DATASET_AGGREGATE: {
      /* After the fixed arguments four for each aggregate: op, type, values, out. */
      aggregate aggregates[16];
      const size_t count = SIZE(6);
      if (count > 16) return E2BIG;
      for (size_t i = 0; i < count; i++)
        aggregates[i] = (aggregate){(aggregate_op)INT(7 + 4 * i), (column_type)INT(8 + 4 * i), AT(9 + 4 * i), AT(10 + 4 * i)};
      const size_t groups = columns_aggregate(AT(0), (column_type)INT(1), SIZE(2), aggregates, count, SIZE(3), AT(4), AT(5));
      if (groups == SIZE_MAX) return ENOMEM;
      a[0] = (double)groups;
      return 0;
    }
    case DATASET_JOIN: {
      const size_t pairs = columns_join(AT(0), SIZE(1), AT(2), SIZE(3), (column_type)INT(4), AT(5), AT(6), SIZE(7));
      if (pairs == SIZE_MAX) return ENOMEM;
      a[0] = (double)pairs;
      return 0;
    }
    case DATASET_ORDER:
      return columns_order(AT(0), (column_type)INT(1), SIZE(2), INT(3), AT(4));
    case DATASET_GATHER:
      columns_gather(AT(0), SIZE(1), AT(2), SIZE(3), AT(4));
      return 0;
    case DATASET_WORDS_OPEN:
      a[0] = (double)(uintptr_t)words_open();
      return a[0] == 0 ? ENOMEM : 0;
    case DATASET_WORDS_ADD_TEXT:
      return words_add_text(AT(0), AT(1), SIZE(2));
    case DATASET_WORDS_ADD_ENTRIES:
      return words_add_entries(AT(0), AT(1), SIZE(2), SIZE(3), SIZE(4));
    case DATASET_WORDS_COUNT:
      a[0] = (double)words_count(AT(0));
      return 0;
    case DATASET_WORDS_SIZES:
      words_sizes(AT(0), SIZE(1), AT(2));
      return 0;
    case DATASET_WORDS_WRITE:
      return words_write(AT(0), SIZE(1), AT(2));
    case DATASET_WORDS_CLOSE:
      words_close(AT(0));
      return 0;
    case DATASET_READ:
      return read_all(INT(0), AT(1), SIZE(2), (uint64_t)a[3], &a[0]);
    default:
      return ENOSYS;
  }
}
