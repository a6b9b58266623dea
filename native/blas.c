/*
 * The own product cuts the three loops so that each operand stays where it is used (Goto and van de Geijn, 2008):
 *
 *        columns of C in strips of NC ── rows of the sum in strips of KC ── pack B: KC x NC ──┐
 *                                                                                              v
 *        rows of C in strips of MC ── pack A: MC x KC (stays in L2) ── tiles of MR x NR: accumulators in registers
 *
 *   packed A: panels of MR rows      a00 a10 .. | a01 a11 .. | ...      one column of MR numbers after the other
 *   packed B: panels of NR columns   b00 b01 .. | b10 b11 .. | ...      one row of NR numbers after the other
 *
 * Panels are padded with zeros, so the inner kernel has no edges; an edge tile of C goes through a small buffer. The inner kernel is
 * written once with vector extensions and compiled for each instruction set; which one runs is decided when the program runs.
 */
#define _GNU_SOURCE
#include "blas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { KC = 384, MC_TARGET = 192, NC_TARGET = 2048, MAX_MR = 12, MAX_NR = 48 };

typedef void (*micro)(size_t k, const float *a, const float *b, float *c, size_t ldc, int add);

typedef struct kernel {
  int lanes, mr, nr;
  micro run;
} kernel;

/* A tile of MR rows and VECTORS vectors of LANES columns. */
#define DEFINE_MICRO(NAME, ATTRIBUTES, LANES, MR, VECTORS)                                                          \
  ATTRIBUTES static void NAME(size_t k, const float *a, const float *b, float *c, size_t ldc, int add) {           \
    typedef float vector __attribute__((vector_size((LANES) * 4)));                                                 \
    typedef float loose __attribute__((vector_size((LANES) * 4), aligned(4)));                                      \
    vector sum[MR][VECTORS] = {{{0}}};                                                                              \
    for (size_t p = 0; p < k; p++, a += (MR), b += (VECTORS) * (LANES)) {                                           \
      vector right[VECTORS];                                                                                        \
      _Pragma("GCC unroll 16") for (int v = 0; v < (VECTORS); v++) right[v] = ((const vector *)b)[v];               \
      _Pragma("GCC unroll 16") for (int i = 0; i < (MR); i++) {                                                     \
        vector left = a[i] - (vector){0};                                                                           \
        _Pragma("GCC unroll 16") for (int v = 0; v < (VECTORS); v++) sum[i][v] += left * right[v];                  \
      }                                                                                                             \
    }                                                                                                               \
    _Pragma("GCC unroll 16") for (int i = 0; i < (MR); i++) {                                                       \
      loose *row = (loose *)(c + (size_t)i * ldc);                                                                  \
      _Pragma("GCC unroll 16") for (int v = 0; v < (VECTORS); v++) row[v] = add ? row[v] + sum[i][v] : sum[i][v];   \
    }                                                                                                               \
  }

#if defined(__x86_64__)
DEFINE_MICRO(micro_4, , 4, 4, 2)
DEFINE_MICRO(micro_8, __attribute__((target("avx2,fma"))), 8, 6, 2)
DEFINE_MICRO(micro_16, __attribute__((target("avx512f"))), 16, 8, 3)
static const kernel kernels[] = {{16, 8, 48, micro_16}, {8, 6, 16, micro_8}, {4, 4, 8, micro_4}};
#else
DEFINE_MICRO(micro_4, , 4, 8, 2)
static const kernel kernels[] = {{4, 8, 8, micro_4}};
#endif

static int lane_limit;

static int runs_here(const kernel *k) {
#if defined(__x86_64__)
  if (k->lanes == 16) return __builtin_cpu_supports("avx512f");
  if (k->lanes == 8) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
  return k->lanes == 4;
}

static const kernel *best(void) {
  const kernel *k = kernels;
  while (!runs_here(k) || (lane_limit && k->lanes > lane_limit)) k++;
  return k;
}

int blas_lanes(void) { return best()->lanes; }
void blas_limit_lanes(int lanes) { lane_limit = lanes < 4 && lanes > 0 ? 4 : lanes; }

/* ---- scratch: one pair of packing buffers a thread ---- */

typedef struct scratch {
  float *a, *b;
} scratch;

static pthread_key_t scratch_key;
static pthread_once_t scratch_once = PTHREAD_ONCE_INIT;

static void scratch_free(void *p) {
  scratch *s = p;
  free(s->a);
  free(s->b);
  free(s);
}

static void scratch_make_key(void) {
  if (pthread_key_create(&scratch_key, scratch_free) != 0) abort();
}

static void *aligned(size_t floats) {
  void *p = NULL;
  if (posix_memalign(&p, 64, floats * sizeof(float)) != 0) abort();
  return p;
}

static scratch *scratch_get(void) {
  pthread_once(&scratch_once, scratch_make_key);
  scratch *s = pthread_getspecific(scratch_key);
  if (s) return s;
  s = malloc(sizeof *s);
  if (!s) abort();
  s->a = aligned((size_t)KC * (MC_TARGET + MAX_MR));
  s->b = aligned((size_t)KC * (NC_TARGET + MAX_NR));
  pthread_setspecific(scratch_key, s);
  return s;
}

/* ---- packing ---- */

/* rows x depth of A, scaled, as panels of mr rows. row_step and depth_step are the strides of the two indices. */
static void pack_a(const float *a, size_t row_step, size_t depth_step, size_t rows, size_t depth, size_t mr, float alpha, float *to) {
  for (size_t r = 0; r < rows; r += mr, to += mr * depth) {
    size_t here = rows - r < mr ? rows - r : mr;
    if (here < mr) memset(to, 0, mr * depth * sizeof *to);
    const float *from = a + r * row_step;
    if (row_step == 1) {
      for (size_t p = 0; p < depth; p++)
        for (size_t i = 0; i < here; i++) to[p * mr + i] = alpha * from[p * depth_step + i];
    } else {
      for (size_t i = 0; i < here; i++)
        for (size_t p = 0; p < depth; p++) to[p * mr + i] = alpha * from[i * row_step + p * depth_step];
    }
  }
}

typedef struct matrix {
  const float *data;
  size_t row_step, column_step;
} matrix;

/* A block of B as one panel: row by row, each row padded with zeros to `lanes` numbers. */
static void pack_b(const matrix *m, size_t row, size_t rows, size_t column, size_t columns, size_t lanes, float *to) {
  const float *from = m->data + row * m->row_step + column * m->column_step;
  if (columns < lanes) memset(to, 0, rows * lanes * sizeof *to);
  if (m->column_step == 1) {
    for (size_t p = 0; p < rows; p++, from += m->row_step, to += lanes) {
      if (columns == 48) {
        memcpy(to, from, 48 * sizeof *to);
      } else if (columns == 16) {
        memcpy(to, from, 16 * sizeof *to);
      } else {
        memcpy(to, from, columns * sizeof *to);
      }
    }
  } else {
    for (size_t j = 0; j < columns; j++)
      for (size_t p = 0; p < rows; p++) to[p * lanes + j] = from[p * m->row_step + j * m->column_step];
  }
}

/* ---- the product ---- */

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static void scale(float *c, size_t m, size_t n, size_t ldc, float beta) {
  for (size_t i = 0; i < m; i++)
    for (size_t j = 0; j < n; j++) c[i * ldc + j] = beta == 0 ? 0 : beta * c[i * ldc + j];
}

static void product(size_t m, size_t n, size_t k, float alpha, const float *a, size_t row_step, size_t depth_step, const matrix *b,
                    float beta, float *c, size_t ldc) {
  const kernel *kern = best();
  const size_t mr = (size_t)kern->mr, nr = (size_t)kern->nr, mc = MC_TARGET / mr * mr, nc = NC_TARGET / nr * nr;
  if (k == 0 || alpha == 0 || (beta != 0 && beta != 1)) {
    scale(c, m, n, ldc, beta);
    if (k == 0 || alpha == 0) return;
    beta = 1;
  }
  scratch *s = scratch_get();
  for (size_t j0 = 0; j0 < n; j0 += nc) {
    size_t columns = least(nc, n - j0);
    for (size_t p0 = 0; p0 < k; p0 += KC) {
      size_t depth = least(KC, k - p0);
      int add = p0 > 0 || beta == 1;
      for (size_t j = 0; j < columns; j += nr) pack_b(b, p0, depth, j0 + j, least(nr, columns - j), nr, s->b + j * depth);
      for (size_t i0 = 0; i0 < m; i0 += mc) {
        size_t rows = least(mc, m - i0);
        pack_a(a + i0 * row_step + p0 * depth_step, row_step, depth_step, rows, depth, mr, alpha, s->a);
        for (size_t j = 0; j < columns; j += nr) {
          for (size_t i = 0; i < rows; i += mr) {
            float *tile = c + (i0 + i) * ldc + j0 + j;
            size_t high = least(mr, rows - i), wide = least(nr, columns - j);
            if (high == mr && wide == nr) {
              kern->run(depth, s->a + i * depth, s->b + j * depth, tile, ldc, add);
              continue;
            }
            float edge[MAX_MR * MAX_NR] __attribute__((aligned(64)));
            kern->run(depth, s->a + i * depth, s->b + j * depth, edge, nr, 0);
            for (size_t y = 0; y < high; y++)
              for (size_t x = 0; x < wide; x++) tile[y * ldc + x] = edge[y * nr + x] + (add ? tile[y * ldc + x] : 0);
          }
        }
      }
    }
  }
}

/* ---- the library ---- */

typedef void (*cblas_sgemm_function)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                                     const float *b, int ldb, float beta, float *c, int ldc);
enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };

static cblas_sgemm_function library;
static int use_library;

/* A processor that OpenBLAS does not know by name gets its slowest kernels, whatever it can do: so we say what it can do. */
static const char *core_type(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
    return "SkylakeX";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
  return NULL;
}

/* Variables that the library reads while it loads. Those that the user has set are left alone; ours are taken away again. */
static int set_for_loading(const char *variable, const char *value) {
  if (!value || getenv(variable)) return 0;
  setenv(variable, value, 0);
  return 1;
}

static cblas_sgemm_function open_library(void) {
  static const char *const names[] = {"libopenblas.so.0", "libblas.so.3"};
  void *found = NULL;
  int threads_set = set_for_loading("OPENBLAS_NUM_THREADS", "1"); /* otherwise a thread a core starts there */
  int core_set = set_for_loading("OPENBLAS_CORETYPE", core_type());
  for (size_t i = 0; i < sizeof names / sizeof names[0] && !found; i++) {
    void *handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!handle) continue;
    found = dlsym(handle, "cblas_sgemm");
    void (*set_threads)(int) = (void (*)(int))dlsym(handle, "openblas_set_num_threads");
    if (found && set_threads) set_threads(1);
    if (!found) dlclose(handle);
  }
  if (threads_set) unsetenv("OPENBLAS_NUM_THREADS");
  if (core_set) unsetenv("OPENBLAS_CORETYPE");
  return (cblas_sgemm_function)found;
}

static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static void library_load(void) { library = open_library(); }

int blas_select(int want) {
  if (want == BLAS_LIBRARY) pthread_once(&library_once, library_load);
  use_library = want == BLAS_LIBRARY && library != NULL;
  return use_library ? BLAS_LIBRARY : BLAS_OWN;
}

void blas_sgemm(int trans_a, int trans_b, size_t m, size_t n, size_t k, float alpha, const float *a, size_t lda, const float *b,
                size_t ldb, float beta, float *c, size_t ldc) {
  if (use_library && m > 0 && n > 0 && k > 0) {
    library(ROW_MAJOR, trans_a ? TRANSPOSED : PLAIN, trans_b ? TRANSPOSED : PLAIN, (int)m, (int)n, (int)k, alpha, a, (int)lda, b,
            (int)ldb, beta, c, (int)ldc);
    return;
  }
  matrix right = {b, trans_b ? 1 : ldb, trans_b ? ldb : 1};
  product(m, n, k, alpha, a, trans_a ? 1 : lda, trans_a ? lda : 1, &right, beta, c, ldc);
}
