/*
 * Open MPI beside Verbena: two ranks on two CPUs, ping-pong (latency) or a stream with a window (bandwidth, rate).
 *
 *   openmpi latency|stream SIZE BATCH WINDOW DURATION_MS CPU0 CPU1
 *
 * Rank 1 measures, as the client of ucx_perftest does. Prints the microseconds of each batch, one a line, after a line "batch N" that
 * says how many messages a batch has. One buffer for sending and one for receiving, as the other systems have it.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 1, MAX_WINDOW = 1024, MAX_BATCHES = 100000, PROBES = 3 };

static char *send_buffer, *receive_buffer;
static int size, window;

static void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

static void ping_pong(int rank, int count) {
  for (int i = 0; i < count; i++) {
    if (rank == 1) MPI_Send(send_buffer, size, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
    MPI_Recv(receive_buffer, size, MPI_BYTE, 1 - rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0) MPI_Send(send_buffer, size, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
  }
}

/* Rank 1 sends `count` messages, `window` at a time; rank 0 answers each window with an empty message. */
static void stream(int rank, int count) {
  static MPI_Request requests[MAX_WINDOW];
  for (int done = 0; done < count; done += window) {
    int n = count - done < window ? count - done : window;
    for (int i = 0; i < n; i++) {
      if (rank == 1) MPI_Isend(send_buffer, size, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &requests[i]);
      else MPI_Irecv(receive_buffer, size, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    if (rank == 1) MPI_Recv(NULL, 0, MPI_BYTE, 0, TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else MPI_Send(NULL, 0, MPI_BYTE, 1, TAG + 1, MPI_COMM_WORLD);
  }
}

static double timed(void (*run)(int, int), int rank, int count) {
  double start = MPI_Wtime();
  run(rank, count);
  return (MPI_Wtime() - start) * 1e6;
}

int main(int argc, char **argv) {
  int rank, batch, batches = 1;
  if (argc != 8) {
    fprintf(stderr, "usage: openmpi latency|stream SIZE BATCH WINDOW DURATION_MS CPU0 CPU1\n");
    return 2;
  }
  void (*run)(int, int) = strcmp(argv[1], "latency") == 0 ? ping_pong : stream;
  size = atoi(argv[2]);
  batch = atoi(argv[3]);
  window = atoi(argv[4]);
  if (size < 0 || batch < 1 || window < 1 || window > MAX_WINDOW) return 2;
  double duration_us = atof(argv[5]) * 1000;

  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  pin(atoi(argv[6 + rank]));
  send_buffer = malloc(size + 1);
  receive_buffer = malloc(size + 1);
  memset(send_buffer, 7, size + 1);
  memset(receive_buffer, 0, size + 1);

  /* Warm up, then find how much fits the time; rank 1 decides for both. */
  double operation_us = 0;
  for (int i = 0, count = window; i < PROBES; i++, count *= 4) operation_us = timed(run, rank, count) / count;
  if (rank == 1) {
    double fits = duration_us / operation_us;
    while (batch > window && batch > fits / 4) batch /= 2;
    batches = (int)(fits / batch);
    if (batches < 1) batches = 1;
    if (batches > MAX_BATCHES) batches = MAX_BATCHES;
  }
  MPI_Bcast(&batch, 1, MPI_INT, 1, MPI_COMM_WORLD);
  MPI_Bcast(&batches, 1, MPI_INT, 1, MPI_COMM_WORLD);

  double *took = malloc(sizeof *took * batches);
  for (int i = 0; i < batches; i++) took[i] = timed(run, rank, batch);
  int wrong = 0;
  for (int i = 0; i < size; i++) wrong += (run == ping_pong || rank == 0) && receive_buffer[i] != 7;
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 1) {
    printf("batch %d\n", batch);
    for (int i = 0; i < batches; i++) printf("%.3f\n", took[i]);
  }
  if (wrong && rank == 0) fprintf(stderr, "wrong payload: %d bytes\n", wrong);
  MPI_Finalize();
  return wrong ? 1 : 0;
}
