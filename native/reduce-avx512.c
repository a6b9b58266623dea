#if defined(__x86_64__)
#define TABLE reduce_avx512
#define TARGET __attribute__((noinline, target("avx512f,avx512bw,avx512vl,avx512dq,avx2,f16c,prefer-vector-width=512")))
#define HALF_INSTRUCTIONS 1
#include "reduce-kernels.h"
#endif
