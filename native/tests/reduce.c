/* Reductions, every instruction set of this machine against a plain loop over doubles or 64-bit integers. */
#define _GNU_SOURCE
#include "reduce.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { MOST = 2500 };

static double get(int type, const void *p, size_t i) {
  switch (type) {
    case TYPE_F32: return ((const float *)p)[i];
    case TYPE_F64: return ((const double *)p)[i];
    case TYPE_I8: return ((const int8_t *)p)[i];
    case TYPE_I32: return ((const int32_t *)p)[i];
    case TYPE_I64: return (double)((const int64_t *)p)[i];
    case TYPE_U8: return ((const uint8_t *)p)[i];
    case TYPE_F16: { /* by the definition of the format */
      uint16_t h = ((const uint16_t *)p)[i];
      int e = (h >> 10) & 31, f = h & 1023;
      double m = e == 31 ? (f ? NAN : INFINITY) : e ? ldexp(1024 + f, e - 25) : ldexp(f, -24);
      return h & 0x8000 ? -m : m;
    }
    default: {
      uint32_t bits = (uint32_t)((const uint16_t *)p)[i] << 16;
      float f;
      memcpy(&f, &bits, 4);
      return f;
    }
  }
}

/* Small integers: exact in every type. */
static void put(int type, void *p, size_t i, int value) {
  switch (type) {
    case TYPE_F32: ((float *)p)[i] = (float)value; return;
    case TYPE_F64: ((double *)p)[i] = value; return;
    case TYPE_I8: ((int8_t *)p)[i] = (int8_t)value; return;
    case TYPE_I32: ((int32_t *)p)[i] = value; return;
    case TYPE_I64: ((int64_t *)p)[i] = value; return;
    case TYPE_U8: ((uint8_t *)p)[i] = (uint8_t)value; return;
    case TYPE_BF16: {
      float f = (float)value;
      uint32_t bits;
      memcpy(&bits, &f, 4);
      ((uint16_t *)p)[i] = (uint16_t)(bits >> 16);
      return;
    }
    default: {
      int e = 0;
      double m = frexp(abs(value), &e);
      ((uint16_t *)p)[i] = (uint16_t)((value < 0 ? 0x8000 : 0) | (value ? ((e + 14) << 10) + ((int)ldexp(m, 11) - 1024) : 0));
    }
  }
}

static double expected(int type, int op, double a, double b, int divisor) {
  double r = 0;
  switch (op) {
    case REDUCE_SUM: r = a + b; break;
    case REDUCE_PROD: r = a * b; break;
    case REDUCE_MIN: r = a < b ? a : b; break;
    case REDUCE_MAX: r = a > b ? a : b; break;
    case REDUCE_BAND: r = (double)((int64_t)a & (int64_t)b); break;
    default: r = (double)((int64_t)a | (int64_t)b);
  }
  if (divisor > 1) r = type >= TYPE_I8 ? trunc(r / divisor) : r / divisor;
  return r;
}

static int value_of(int type, int rank, size_t i) {
  int v = (int)((i * 7 + (size_t)rank * 3) % 9);
  return type == TYPE_U8 ? v : v - 4;
}

static void every_kernel_gives_the_plain_result(void) {
  static uint8_t memory[5][MOST * 8 + 64] __attribute__((aligned(64)));
  static const size_t counts[] = {0, 1, 7, 8, 31, 64, 513, 1500, MOST};
  for (int level = 0; reduce_choose(level); level++)
    for (int type = 0; type < TYPES; type++)
      for (int op = 0; op < REDUCE_OPS; op++) {
        if (!reduce_supported(type, op)) continue;
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
          for (int divisor = 1; divisor <= (op == REDUCE_SUM ? 4 : 1); divisor += 3) {
            size_t n = counts[c], shift = c % 2 ? reduce_width(type) : 0; /* aligned and not */
            if (n * reduce_width(type) + shift > sizeof memory[0]) continue;
            for (int ranks = 2; ranks <= 5; ranks++) {
              void *buffers[5];
              for (int r = 0; r < ranks; r++) {
                buffers[r] = memory[r] + shift;
                for (size_t i = 0; i < n; i++) put(type, buffers[r], i, value_of(type, r, i));
              }
              reduce_all(type, op, buffers, ranks, n, divisor);
              for (size_t i = 0; i < n; i++) {
                double wanted = value_of(type, 0, i);
                for (int r = 1; r < ranks; r++)
                  wanted = expected(type, op, wanted, value_of(type, r, i), r == ranks - 1 ? divisor : 1);
                if (type == TYPE_I8) wanted = (int8_t)(int)wanted;
                if (type == TYPE_U8) wanted = (uint8_t)(int)wanted;
                if (type == TYPE_U8 || type == TYPE_I8)
                  if (op == REDUCE_PROD && ranks > 2) continue; /* wraps in between: the next test */
                for (int r = 0; r < ranks; r++) CHECK(get(type, buffers[r], i) == wanted);
              }
            }
            for (int r = 0; r < 2; r++)
              for (size_t i = 0; i < n; i++) put(type, memory[r] + shift, i, value_of(type, r, i));
            reduce_into(type, op, memory[0] + shift, memory[1] + shift, n, divisor);
            for (size_t i = 0; i < n; i++) {
              double wanted = expected(type, op, value_of(type, 0, i), value_of(type, 1, i), divisor);
              CHECK(get(type, memory[0] + shift, i) == wanted);
              CHECK(get(type, memory[1] + shift, i) == value_of(type, 1, i));
            }
          }
      }
}

static void integers_wrap(void) {
  for (int level = 0; reduce_choose(level); level++) {
    int32_t a[33], b[33];
    uint8_t c[33], d[33];
    for (int i = 0; i < 33; i++) a[i] = INT32_MAX, b[i] = 2, c[i] = 200, d[i] = 100;
    reduce_into(TYPE_I32, REDUCE_SUM, a, b, 33, 1);
    reduce_into(TYPE_U8, REDUCE_SUM, c, d, 33, 1);
    for (int i = 0; i < 33; i++) CHECK(a[i] == INT32_MIN + 1 && c[i] == 44);
  }
}

static void a_nan_on_either_side_is_the_minimum_and_the_maximum(void) {
  for (int level = 0; reduce_choose(level); level++)
    for (int op = REDUCE_MIN; op <= REDUCE_MAX; op++) {
      float a[40], b[40];
      for (int i = 0; i < 40; i++) a[i] = i % 2 ? NAN : 1, b[i] = i % 2 ? 1 : NAN;
      reduce_into(TYPE_F32, op, a, b, 40, 1);
      for (int i = 0; i < 40; i++) CHECK(isnan(a[i]));
    }
}

/* Every f16 value survives own = own + 0, and sums round to nearest even, with each instruction set. */
static void halves_convert_exactly(void) {
  static uint16_t all[65536], zero[65536];
  for (int level = 0; reduce_choose(level); level++) {
    for (int i = 0; i < 65536; i++) all[i] = (uint16_t)i;
    memset(zero, 0, sizeof zero);
    reduce_into(TYPE_F16, REDUCE_SUM, all, zero, 65536, 1);
    for (int i = 0; i < 65536; i++) {
      uint16_t h = (uint16_t)i;
      if ((h & 0x7c00) == 0x7c00 && (h & 0x3ff)) CHECK((all[i] & 0x7e00) == 0x7e00);
      else if (h == 0x8000) CHECK(all[i] == 0); /* -0 + 0 */
      else CHECK(all[i] == h);
    }
    uint16_t big[9], one[9];
    for (int i = 0; i < 9; i++) big[i] = 0x6800, one[i] = 0x3c00; /* 2048 + 1: a tie, down to even */
    reduce_into(TYPE_F16, REDUCE_SUM, big, one, 9, 1);
    for (int i = 0; i < 9; i++) CHECK(big[i] == 0x6800);
    for (int i = 0; i < 9; i++) big[i] = 0x6801; /* 2050 + 1: up to even */
    reduce_into(TYPE_F16, REDUCE_SUM, big, one, 9, 1);
    for (int i = 0; i < 9; i++) CHECK(big[i] == 0x6802);
  }
}

int main(void) {
  RUN(every_kernel_gives_the_plain_result);
  RUN(integers_wrap);
  RUN(a_nan_on_either_side_is_the_minimum_and_the_maximum);
  RUN(halves_convert_exactly);
  return 0;
}
