/*
 * One update of a server's shard, in one pass and by up to two threads.
 *
 *   blocks     | 0 | 1 | 2 | 3 | 4 | ...      the calling thread and a helper take the next one until there are none
 *   of each:   add the gradients up ── step of the optimizer ── new parameters to the workers        while it is in the nearest cache
 *
 * The helper sleeps between updates. One that is not given a core takes no block, and the update takes as long as without it. In synchronous training the cores of the
 * workers are free meanwhile, since these wait for the update.
 */
#ifndef VERBENA_APPLY_H
#define VERBENA_APPLY_H

#include <stddef.h>

typedef struct {
  /* A call of kernel-table.h whose arguments from `first` on are the addresses of parameters, gradient and state, and after `pointers` of them the length. */
  const double *update;
  size_t first, pointers;
  /* Addresses and factors of gradients that are added up; none: the gradient is there already. */
  const double *sources, *factors;
  size_t count;
  /* Addresses where new parameters go: past the caches, since their readers are other cores. */
  const double *targets;
  size_t delivered;
} application;

/* Returns 0, or 1 when there is no such kernel. Any thread may call it; the helper serves one at a time. */
int apply(const application *a);

#endif
