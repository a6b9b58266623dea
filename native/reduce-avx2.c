#if defined(__x86_64__)
#define TABLE reduce_avx2
#define TARGET __attribute__((noinline, target("avx2,f16c")))
#define HALF_INSTRUCTIONS 1
#include "reduce-kernels.h"
#endif
