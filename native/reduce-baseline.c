#define TABLE reduce_baseline
#define TARGET __attribute__((noinline))
#define HALF_INSTRUCTIONS 0
#include "reduce-kernels.h"
