/*
 * A parameter server over ZeroMQ, for comparison: a worker sends its gradient, the server subtracts it times a rate from the parameters and sends
 * these back. A process each, REQ sockets and a REP socket.
 *
 *   ps-zeromq ENDPOINT BYTES MILLISECONDS plain|messages WORKERS
 *
 * plain: zmq_send and zmq_recv between arrays, as most programs do: on the way from array to array 4 copies each direction. messages: zmq_msg_t, sent without the
 * first copy and read where it was received. Prints microseconds of each round trip, one a line; of several workers one line, the time over the round trips of all of them. The
 * parameters are checked at the end.
 *
 * Only the library is needed, not its headers.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct { _Alignas(void *) unsigned char bytes[64]; } zmq_msg_t;
void *zmq_ctx_new(void);
void *zmq_socket(void *context, int type);
int zmq_bind(void *socket, const char *endpoint);
int zmq_connect(void *socket, const char *endpoint);
int zmq_send(void *socket, const void *buffer, size_t length, int flags);
int zmq_recv(void *socket, void *buffer, size_t length, int flags);
int zmq_msg_init(zmq_msg_t *message);
int zmq_msg_init_data(zmq_msg_t *message, void *data, size_t size, void (*release)(void *, void *), void *hint);
int zmq_msg_send(zmq_msg_t *message, void *socket, int flags);
int zmq_msg_recv(zmq_msg_t *message, void *socket, int flags);
void *zmq_msg_data(zmq_msg_t *message);
int zmq_msg_close(zmq_msg_t *message);
enum { ZMQ_REQ = 3, ZMQ_REP = 4 };

static const float RATE = 0.5f;

static void check(int ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "%s failed: errno %d\n", what, errno);
  _exit(1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void keep(void *data, void *hint) {
  (void)data;
  (void)hint;
}

static void send_array(void *socket, float *array, size_t bytes, int messages) {
  if (!messages) {
    check(zmq_send(socket, array, bytes, 0) == (int)bytes, "zmq_send");
    return;
  }
  zmq_msg_t message;
  check(zmq_msg_init_data(&message, array, bytes, keep, NULL) == 0, "zmq_msg_init_data");
  check(zmq_msg_send(&message, socket, 0) == (int)bytes, "zmq_msg_send");
}

static void update(float *restrict parameters, const float *restrict gradient, size_t n) {
  for (size_t i = 0; i < n; i++) parameters[i] -= RATE * gradient[i];
}

static void serve(void *socket, float *parameters, float *gradient, size_t bytes, int messages) {
  for (;;) {
    if (messages) {
      zmq_msg_t message;
      zmq_msg_init(&message);
      check(zmq_msg_recv(&message, socket, 0) == (int)bytes, "zmq_msg_recv");
      update(parameters, zmq_msg_data(&message), bytes / 4);
      zmq_msg_close(&message);
    } else {
      check(zmq_recv(socket, gradient, bytes, 0) == (int)bytes, "zmq_recv");
      update(parameters, gradient, bytes / 4);
    }
    send_array(socket, parameters, bytes, messages);
  }
}

static void push_pull(void *socket, float *parameters, float *gradient, size_t bytes, int messages) {
  send_array(socket, gradient, bytes, messages);
  if (!messages) {
    check(zmq_recv(socket, parameters, bytes, 0) == (int)bytes, "zmq_recv");
    return;
  }
  zmq_msg_t message;
  zmq_msg_init(&message);
  check(zmq_msg_recv(&message, socket, 0) == (int)bytes, "zmq_msg_recv");
  memcpy(parameters, zmq_msg_data(&message), bytes); /* the model's parameters are one array */
  zmq_msg_close(&message);
}

int main(int argc, char **argv) {
  if (argc != 6) return 2;
  const char *endpoint = argv[1];
  const size_t bytes = (size_t)atoll(argv[2]) & ~(size_t)3;
  const double limit = atof(argv[3]) * 1e3;
  const int messages = strcmp(argv[4], "messages") == 0, workers = atoi(argv[5]);
  float *parameters = calloc(bytes + 64, 1), *gradient = calloc(bytes + 64, 1);
  _Atomic long *turns = mmap(NULL, sizeof *turns, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  check(parameters != NULL && gradient != NULL && turns != MAP_FAILED, "memory");
  const pid_t server = fork();
  if (server == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    void *socket = zmq_socket(zmq_ctx_new(), ZMQ_REP);
    check(zmq_bind(socket, endpoint) == 0, "zmq_bind");
    serve(socket, parameters, gradient, bytes, messages);
  }
  int first = 1;
  for (int w = 1; w < workers && first; w++) first = fork() != 0;
  if (!first) prctl(PR_SET_PDEATHSIG, SIGKILL);
  void *socket = zmq_socket(zmq_ctx_new(), ZMQ_REQ);
  check(zmq_connect(socket, endpoint) == 0, "zmq_connect");
  for (size_t i = 0; i < bytes / 4; i++) gradient[i] = (float)(i % 7);
  for (int i = 0; i < 10; i++, ++*turns) push_pull(socket, parameters, gradient, bytes, messages);
  const double begin = now();
  const long before = *turns;
  for (int own = 0; own < 10 || now() - begin < limit; own++) {
    const double start = now();
    push_pull(socket, parameters, gradient, bytes, messages);
    ++*turns;
    if (workers == 1) printf("%.3f\n", now() - start);
  }
  if (!first) _exit(0);
  if (workers > 1) printf("%.3f\n", (now() - begin) / (double)(*turns - before));
  for (int w = 1; w < workers; w++) {
    pid_t ended;
    do ended = wait(NULL);
    while (ended == server);
  }
  push_pull(socket, parameters, gradient, bytes, messages);
  const long total = *turns + 1;
  int wrong = 0;
  for (size_t i = 0; i < bytes / 4; i++) wrong += parameters[i] != -RATE * (float)total * (float)(i % 7) && total * 3 < (1 << 23);
  kill(server, SIGKILL);
  waitpid(server, NULL, 0);
  if (wrong > 0) fprintf(stderr, "%d parameters are wrong\n", wrong);
  fflush(stdout);
  _exit(wrong > 0);
}
