/*
 * The dataset kernels against plain definitions: sorting against qsort, grouping and joining against loops. Buffers have exactly the size that is
 * promised, so the sanitizers see a step past the end.
 */
#define _GNU_SOURCE
#include "dataset.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "check.h"

static uint64_t state = 88172645463325252ull;

static uint64_t next_random(void) {
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}

static size_t sort_width, sort_key;

static int by_key(const void *a, const void *b) {
  int order = memcmp(a, b, sort_key);
  return order != 0 ? order : memcmp((const uint8_t *)a + sort_width - 4, (const uint8_t *)b + sort_width - 4, 4);
}

/* Records whose last four bytes are their number, big-endian: a stable sort is a sort by key, then number. */
static uint8_t *make_records(size_t n, size_t width, size_t key, unsigned spread) {
  uint8_t *r = malloc(n * width + 1);
  CHECK(r);
  for (size_t i = 0; i < n; i++) {
    for (size_t k = 0; k < width; k++) r[i * width + k] = k < key ? (uint8_t)(next_random() % spread) : (uint8_t)k;
    uint32_t number = __builtin_bswap32((uint32_t)i);
    memcpy(r + i * width + width - 4, &number, 4);
  }
  return r;
}

static void sorts_as_qsort_does(void) {
  static const struct {
    size_t n, width, key;
    unsigned spread;
  } cases[] = {{0, 100, 10, 256}, {1, 100, 10, 256}, {25, 100, 10, 2}, {5000, 100, 10, 256}, {5000, 100, 10, 3},
               {5000, 100, 10, 1}, {3000, 40, 20, 2}, {3000, 12, 8, 4}, {2000, 9, 5, 7},    {70000, 16, 8, 95}};
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    const size_t n = cases[c].n, width = cases[c].width, key = cases[c].key;
    uint8_t *in = make_records(n, width, key, cases[c].spread), *out = malloc(n * width + 1);
    CHECK(out && records_sort(in, n, width, key, out, -1, 0) == 0);
    FILE *file = tmpfile();
    CHECK(file && records_sort(in, n, width, key, NULL, fileno(file), 7) == 0);
    sort_width = width;
    sort_key = key;
    qsort(in, n, width, by_key);
    CHECK(memcmp(in, out, n * width) == 0);
    uint8_t *back = malloc(n * width + 1);
    CHECK(back && pread(fileno(file), back, n * width, 7) == (ssize_t)(n * width) && memcmp(in, back, n * width) == 0);
    fclose(file);
    free(in);
    free(out);
    free(back);
  }
}

static void partitions_by_splitters_in_order(void) {
  for (size_t key = 4; key <= 20; key += 8) {
    const size_t n = 3000, width = 24, parts = 7;
    uint8_t *in = make_records(n, width, key, 5), *out = malloc(n * width), *splitters = malloc((parts - 1) * key);
    uint16_t *ids = malloc(n * sizeof *ids);
    double counts[7], sum = 0;
    CHECK(out && splitters && ids);
    for (size_t i = 0; i < parts - 1; i++) memcpy(splitters + i * key, in + i * 400 * width, key);
    sort_width = sort_key = key;
    for (size_t i = 1; i < parts - 1; i++)
      for (size_t k = i; k > 0 && memcmp(splitters + (k - 1) * key, splitters + k * key, key) > 0; k--) {
        uint8_t swap[20];
        memcpy(swap, splitters + k * key, key);
        memcpy(splitters + k * key, splitters + (k - 1) * key, key);
        memcpy(splitters + (k - 1) * key, swap, key);
      }
    records_partition(in, n, width, key, splitters, parts, ids, counts, out);
    const uint8_t *at = out;
    for (size_t p = 0; p < parts; p++) {
      sum += counts[p];
      for (size_t i = 0; i < (size_t)counts[p]; i++, at += width) {
        CHECK(p == 0 || memcmp(splitters + (p - 1) * key, at, key) <= 0);
        CHECK(p == parts - 1 || memcmp(at, splitters + p * key, key) < 0);
        CHECK(i == 0 || memcmp(at - 4, at + width - 4, 4) < 0);
      }
    }
    CHECK(sum == n);
    free(in);
    free(out);
    free(splitters);
    free(ids);
  }
}

static void merges_runs_in_order(void) {
  const size_t n = 900, width = 16, key = 4;
  uint8_t *in = make_records(n, width, key, 3), *sorted = malloc(n * width), *out = malloc(n * width);
  CHECK(sorted && out);
  run runs[3];
  for (size_t r = 0; r < 3; r++) {
    CHECK(records_sort(in + r * 300 * width, 300, width, key, sorted + r * 300 * width, -1, 0) == 0);
    runs[r] = (run){sorted + r * 300 * width, sorted + (r + 1) * 300 * width};
  }
  size_t done = 0;
  for (size_t got; (got = records_merge(runs, 3, width, key, out + done * width, 101 < n - done ? 101 : n - done)) > 0;) done += got;
  CHECK(done == n);
  sort_width = width;
  sort_key = key;
  qsort(in, n, width, by_key);
  CHECK(memcmp(in, out, n * width) == 0);
  free(in);
  free(sorted);
  free(out);
}

static void generated_records_check(void) {
  const size_t n = 1000;
  uint8_t *a = malloc(n * 100), *b = malloc(n * 100), last[10];
  CHECK(a && b);
  for (int text = 0; text < 2; text++) {
    records_generate(a, 0, n, 5, text);
    records_generate(b, 400, n - 400, 5, text);
    CHECK(memcmp(a + 40000, b, (n - 400) * 100) == 0);
    record_check before = {0, 0, 0}, after = {0, 0, 0};
    records_check(a, n, 100, 10, last, 0, &before);
    CHECK(before.inversions > 300);
    CHECK(records_sort(a, n, 100, 10, b, -1, 0) == 0);
    records_check(b, 500, 100, 10, last, 0, &after);
    records_check(b + 50000, 500, 100, 10, last, 1, &after);
    CHECK(after.inversions == 0 && after.sum == before.sum);
    b[55]++;
    record_check damaged = {0, 0, 0};
    records_check(b, n, 100, 10, last, 0, &damaged);
    CHECK(damaged.sum != before.sum);
  }
  free(a);
  free(b);
}

static void checksums_see_every_byte(void) {
  uint8_t bytes[75];
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)next_random();
  for (size_t length = 0; length <= sizeof bytes; length++) {
    const double whole = dataset_checksum(bytes, length);
    CHECK(length == 0 || dataset_checksum(bytes, length - 1) != whole);
    for (size_t i = 0; i < length; i++) {
      bytes[i] ^= 16;
      CHECK(dataset_checksum(bytes, length) != whole);
      bytes[i] ^= 16;
    }
  }
}

static void groups_as_a_loop_does(void) {
  static const struct {
    size_t n, distinct, parts;
  } cases[] = {{0, 1, 4}, {1, 1, 1}, {1000, 10, 8}, {200000, 5000, 4}, {100000, 100000, 1}};
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    const size_t n = cases[c].n, distinct = cases[c].distinct, parts = cases[c].parts;
    int32_t *keys = malloc(n * 4 + 4), *out_keys = malloc(n * 4 + 4);
    double *values = malloc(n * 8 + 8), *sums = malloc(n * 8 + 8), *mins = malloc(n * 8 + 8), *counts = malloc(n * 8 + 8);
    double *want_sum = calloc(distinct, 8), *want_min = calloc(distinct, 8), *want_count = calloc(distinct, 8), groups[8], total = 0;
    CHECK(keys && out_keys && values && sums && mins && counts && want_sum && want_min && want_count);
    for (size_t i = 0; i < n; i++) {
      keys[i] = (int32_t)(next_random() % distinct) - 3;
      values[i] = (double)(next_random() % 1000) - 500;
      const int k = keys[i] + 3;
      want_min[k] = want_count[k] == 0 || values[i] < want_min[k] ? values[i] : want_min[k];
      want_sum[k] += values[i];
      want_count[k]++;
    }
    aggregate a[] = {{AGGREGATE_SUM, COLUMN_F64, values, sums}, {AGGREGATE_MIN, COLUMN_F64, values, mins}, {AGGREGATE_COUNT, COLUMN_F64, NULL, counts}};
    const size_t found = columns_aggregate(keys, COLUMN_I32, n, a, 3, parts, out_keys, groups);
    size_t expected = 0;
    for (size_t k = 0; k < distinct; k++) expected += want_count[k] > 0;
    CHECK(found == expected);
    for (size_t p = 0; p < parts; p++) total += groups[p];
    CHECK(total == (double)found);
    for (size_t g = 0; g < found; g++) {
      const int k = out_keys[g] + 3;
      CHECK(sums[g] == want_sum[k] && mins[g] == want_min[k] && counts[g] == want_count[k]);
      want_count[k] = -1;
    }
    free(keys), free(out_keys), free(values), free(sums), free(mins), free(counts), free(want_sum), free(want_min), free(want_count);
  }
}

static void joins_as_loops_do(void) {
  for (int swap = 0; swap < 2; swap++) {
    const size_t n = swap ? 300 : 2000, m = swap ? 2000 : 300;
    double *left = malloc(n * 8), *right = malloc(m * 8);
    CHECK(left && right);
    for (size_t i = 0; i < n; i++) left[i] = (double)(next_random() % 500);
    for (size_t i = 0; i < m; i++) right[i] = (double)(next_random() % 500) * (i % 7 == 0 ? -0.0 : 1);
    size_t expected = 0;
    for (size_t i = 0; i < n; i++)
      for (size_t k = 0; k < m; k++) expected += left[i] == right[k];
    CHECK(columns_join(left, n, right, m, COLUMN_F64, NULL, NULL, 0) == expected);
    uint32_t *a = malloc(expected * 4), *b = malloc(expected * 4);
    CHECK(a && b && columns_join(left, n, right, m, COLUMN_F64, a, b, expected) == expected);
    for (size_t i = 0; i < expected; i++) {
      CHECK(left[a[i]] == right[b[i]]);
      CHECK(i == 0 || a[i] != a[i - 1] || b[i] != b[i - 1]);
    }
    free(left), free(right), free(a), free(b);
  }
}

static void orders_columns(void) {
  const size_t n = 3000;
  double *f64 = malloc(n * 8);
  int32_t *i32 = malloc(n * 4), *picked = malloc(n * 4);
  uint32_t *order = malloc(n * 4);
  CHECK(f64 && i32 && order && picked);
  for (size_t i = 0; i < n; i++) {
    i32[i] = (int32_t)(next_random() % 200) - 100;
    f64[i] = i % 50 == 0 ? NAN : i % 50 == 1 ? -INFINITY : (double)i32[i] / 3;
  }
  for (int descending = 0; descending < 2; descending++) {
    CHECK(columns_order(i32, COLUMN_I32, n, descending, order) == 0);
    for (size_t i = 1; i < n; i++) {
      const int32_t x = i32[order[i - 1]], y = i32[order[i]];
      CHECK((descending ? x > y : x < y) || (x == y && order[i - 1] < order[i]));
    }
    columns_gather(i32, 4, order, n, picked);
    for (size_t i = 0; i < n; i++) CHECK(picked[i] == i32[order[i]]);
  }
  CHECK(columns_order(f64, COLUMN_F64, n, 0, order) == 0);
  for (size_t i = 1; i < n; i++) CHECK(f64[order[i - 1]] <= f64[order[i]] || isnan(f64[order[i]]));
  CHECK(columns_order(f64, COLUMN_F64, n, 1, order) == 0);
  for (size_t i = 1; i < n; i++) CHECK(f64[order[i - 1]] >= f64[order[i]] || isnan(f64[order[i]]));
  free(f64), free(i32), free(order), free(picked);
}

static void counts_words(void) {
  words *w = words_open(), *merged = words_open();
  const char *text = "  the quick  brown\nfox the end\tthe longer-than-eight-bytes ";
  double sizes[3];
  CHECK(w && merged && words_add_text(w, (const uint8_t *)text, strlen(text)) == 0);
  CHECK(words_count(w) == 6);
  words_sizes(w, 3, sizes);
  uint8_t *out = malloc((size_t)(sizes[0] + sizes[1] + sizes[2]));
  CHECK(out && words_write(w, 3, out) == 0);
  const size_t total = (size_t)(sizes[0] + sizes[1] + sizes[2]);
  for (size_t part = 0; part < 5; part++) CHECK(words_add_entries(merged, out, total, 5, part) == 0);
  CHECK(words_count(merged) == 6);
  CHECK(words_add_entries(merged, out, total, 1, 0) == 0 && words_count(merged) == 6);
  CHECK(words_add_entries(merged, out, total - 1, 1, 0) == EBADMSG && words_add_entries(merged, out, 8, 1, 0) == EBADMSG);
  for (uint32_t i = 0; i < 20000; i++) {
    char name[16];
    snprintf(name, sizeof name, "w%u", i % 9000);
    CHECK(words_add_text(w, (const uint8_t *)name, strlen(name)) == 0);
  }
  CHECK(words_count(w) == 9006);
  free(out);
  words_close(w);
  words_close(merged);
}

static void kernels_go_by_number(void) {
  double call[80] = {DATASET_CHECKSUM, (double)(uintptr_t) "abc", 3};
  CHECK(dataset_call(call) == 0 && call[1] == dataset_checksum((const uint8_t *)"abc", 3));
  call[0] = 999;
  CHECK(dataset_call(call) == ENOSYS);
}

int main(void) {
  RUN(sorts_as_qsort_does);
  RUN(partitions_by_splitters_in_order);
  RUN(merges_runs_in_order);
  RUN(generated_records_check);
  RUN(checksums_see_every_byte);
  RUN(groups_as_a_loop_does);
  RUN(joins_as_loops_do);
  RUN(orders_columns);
  RUN(counts_words);
  RUN(kernels_go_by_number);
  return 0;
}
