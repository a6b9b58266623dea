/*
 * MPI's collectives beside Verbena's: Open MPI and MPICH compile the same file.
 *
 *   mpirun -n P collective-mpi allreduce|allgather|broadcast|alltoall BYTES DURATION_MS
 *
 * BYTES as nccl-tests counts them: of the whole vector. f32, in place where MPI can. The first call is checked; after a warm-up the ranks run batches of
 * calls for the time given. Rank 0 prints how many elements were wrong, then the microseconds of one call, a line for each batch.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float *data, *other;
static int count, ranks, rank;

/* One core each where there are enough. */
static void pin(void) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < ranks) return;
  for (int cpu = 0, left = rank; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &allowed) && left-- == 0) {
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      sched_setaffinity(0, sizeof one, &one);
      return;
    }
}

static void call(const char *which) {
  if (!strcmp(which, "allreduce")) MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  else if (!strcmp(which, "allgather"))
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, count / ranks, MPI_FLOAT, MPI_COMM_WORLD);
  else if (!strcmp(which, "broadcast")) MPI_Bcast(data, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
  else MPI_Alltoall(data, count / ranks, MPI_FLOAT, other, count / ranks, MPI_FLOAT, MPI_COMM_WORLD);
}

/* What rank `from` has for rank `to` at an index: a small whole number. */
static float given(int from, int to, int i) { return (float)((from + 1) * (1 + (i + to) % 7)); }

static int check(const char *which) {
  int part = count / ranks, wrong = 0;
  for (int i = 0; i < count; i++) {
    int to = i / (part ? part : 1);
    data[i] = !strcmp(which, "allgather") && to != rank ? -1 : !strcmp(which, "broadcast") && rank ? -1 : given(rank, to, i);
    other[i] = -1;
  }
  call(which);
  for (int i = 0; i < count; i++) {
    int to = i / (part ? part : 1);
    float sum = given(0, to, i) * (float)(ranks * (ranks + 1) / 2), want = given(0, to, i), got = data[i];
    if (!strcmp(which, "allreduce")) want = sum;
    else if (!strcmp(which, "allgather")) want = given(to, to, i);
    else if (!strcmp(which, "alltoall")) {
      got = other[i];
      want = given(to, rank, i - to * part + rank * part);
    }
    wrong += got != want;
  }
  int all;
  MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  return all;
}

static double batch(const char *which, int calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  double start = MPI_Wtime();
  for (int i = 0; i < calls; i++) call(which);
  return (MPI_Wtime() - start) * 1e6;
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: collective-mpi allreduce|allgather|broadcast|alltoall BYTES DURATION_MS\n");
    return 2;
  }
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  pin();
  size_t bytes = (size_t)atol(argv[2]);
  double duration = atof(argv[3]) * 1e3;
  count = (int)(bytes / 4);
  data = malloc(bytes + 4);
  other = malloc(bytes + 4);
  int wrong = check(argv[1]);
  if (rank == 0) printf("%d\n", wrong);
  /* Written, not only allocated: pages that were never written all stand for one page of zeros, which would stay in the first-level cache. */
  for (int i = 0; i < count; i++) data[i] = other[i] = 0;
  double once = 0;
  for (int i = 0; i < 3; i++) once = batch(argv[1], 4) / 4;
  int plan[2]; /* calls of a batch, batches */
  plan[0] = (int)(duration / 20 / once) > 1 ? (int)(duration / 20 / once) : 1;
  plan[1] = (int)(duration / (once * plan[0])) > 3 ? (int)(duration / (once * plan[0])) : 3;
  MPI_Bcast(plan, 2, MPI_INT, 0, MPI_COMM_WORLD);
  for (int i = 0; i < plan[1]; i++) {
    double us = batch(argv[1], plan[0]) / plan[0];
    if (rank == 0) printf("%.4f\n", us);
  }
  MPI_Finalize();
  return 0;
}
