#define _GNU_SOURCE
#include "liveness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "watch.h"

#define STACK_BYTES (128 << 10)
#define CONNECT_MS 10000
/* A process that is gone may have said goodbye: the word of the coordinator, which also knows the reason, gets this long to arrive. It comes at once, but for a
   launcher that has to wait for its turn; who is killed is known within a second in any case. */
#define CONFIRM_MS 800

enum {
  W_SIZE = 2,
  W_SELF = 3,
  W_ATTENTION = 4,
  W_COORDINATOR = 5,
  W_STALL_MS = 6,
  W_HEARTBEAT_MS = 7,
  W_SILENCE_MS = 8,
  W_HOLDER = 9,
  W_REPORTS = 10,
  W_REPORT_LENGTH = 11,
  W_END = 12,
  SLOTS = 16,
  SLOT_COUNT = 16,
  SLOT_WORDS = 16,
  SITES = SLOTS + SLOT_COUNT * SLOT_WORDS,
  SITE_COUNT = 64,
  SITE_WORDS = 32,
  REPORT = SITES + SITE_COUNT * SITE_WORDS,
  REPORT_WORDS = 2048,
  RANKS = REPORT + REPORT_WORDS,
  RANK_WORDS = 64,
};

enum { RUNNING = 0, LEFT = 1, LOST = 2 };
enum { CONNECTED = 0, GOODBYE = 1, GONE = 2 };
/* ATTACH to REPLY go to the coordinator, the others come from it; BEAT does both. */
enum { F_ATTACH = 1, F_BEAT = 2, F_LEAVE = 3, F_STALL = 4, F_WAITING = 5, F_LEFT = 6, F_LOST = 7, F_WHERE = 8, F_BYE = 9, F_REPORT = 10 };

typedef struct frame {
  int32_t type, rank, code, length;
} frame;

typedef struct peer {
  int pidfd;
  uint64_t deadline; /* when a process that is gone counts as lost; 0: it is there */
} peer;

struct liveness {
  pthread_t thread;
  pthread_mutex_t lock; /* of sending, and of peers */
  int32_t *board;
  int socket, epoll, wake, bell, stop, left;
  int size;
  peer *peers;
  uint64_t heard, next_beat, next_look;
  struct {
    int32_t sequence;
    uint64_t since;
    int told;
  } seen[SLOT_COUNT];
  size_t filled;
  char input[16 + REPORT_WORDS * 4];
};

static uint64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static int32_t load(const int32_t *word) { return __atomic_load_n(word, __ATOMIC_SEQ_CST); }
static void store(int32_t *word, int32_t value) { __atomic_store_n(word, value, __ATOMIC_SEQ_CST); }

static int thread_start(pthread_t *thread, void *(*run)(void *), void *argument) {
  pthread_attr_t attributes;
  sigset_t all, old;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old); /* signals belong to the threads of Node */
  int error = pthread_create(thread, &attributes, run, argument);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  pthread_attr_destroy(&attributes);
  return error;
}

static void end_process(void) {
  if (getpgrp() == getpid()) kill(0, SIGKILL);
  kill(getpid(), SIGKILL);
}

/* ---- the guard ---- */

static void *guard_run(void *argument) {
  int fd = (int)(intptr_t)argument;
  for (;;) {
    char text[256];
    ssize_t n = read(fd, text, sizeof text);
    if (n > 0 || (n < 0 && errno == EINTR)) continue;
    if (n < 0 && errno == EAGAIN) {
      struct pollfd wait = {.fd = fd, .events = POLLIN};
      poll(&wait, 1, -1);
      continue;
    }
    end_process();
    return NULL;
  }
}

int guard_start(int fd) {
  pthread_t thread;
  if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) return errno;
  prctl(PR_SET_PDEATHSIG, SIGCONT, 0, 0, 0);
  int error = thread_start(&thread, guard_run, (void *)(intptr_t)fd);
  if (!error) pthread_detach(thread);
  return error;
}

/* ---- what the thread tells JavaScript ---- */

static void alert(liveness *l) {
  __atomic_add_fetch(&l->board[W_ATTENTION], 1, __ATOMIC_SEQ_CST);
  ssize_t ignored = write(l->bell, "", 1);
  (void)ignored; /* a full pipe has a wake-up pending already */
}

static void set_state(liveness *l, int rank, int32_t state, const char *reason, size_t length) {
  if (rank < 0 || rank >= l->size) return;
  int32_t *entry = l->board + RANKS + rank * RANK_WORDS;
  if (load(entry) != RUNNING) return; /* the first word counts */
  size_t room = (RANK_WORDS - 2) * 4;
  if (length > room) length = room;
  memcpy(entry + 2, reason, length);
  store(entry + 1, (int32_t)length);
  store(entry, state);
  alert(l);
}

static void lose(liveness *l, int rank, const char *reason) { set_state(l, rank, LOST, reason, strlen(reason)); }

/* ---- the lifeline ---- */

static int send_frame(liveness *l, int type, int code, const void *text, size_t length) {
  char out[16 + 512];
  frame head = {type, load(&l->board[W_SELF]), code, (int32_t)length};
  if (length > sizeof out - sizeof head) return EMSGSIZE;
  memcpy(out, &head, sizeof head);
  if (length > 0) memcpy(out + sizeof head, text, length);
  pthread_mutex_lock(&l->lock);
  ssize_t n = l->socket < 0 ? -1 : send(l->socket, out, sizeof head + length, MSG_NOSIGNAL | MSG_DONTWAIT);
  pthread_mutex_unlock(&l->lock);
  return n == (ssize_t)(sizeof head + length) ? 0 : EPIPE; /* a peer that takes nothing any more is found by its silence */
}

static void lifeline_lost(liveness *l, const char *why) {
  pthread_mutex_lock(&l->lock);
  close(l->socket); /* leaves the epoll set by itself */
  l->socket = -1;
  pthread_mutex_unlock(&l->lock);
  if (load(&l->board[W_COORDINATOR]) == GOODBYE) return;
  store(&l->board[W_COORDINATOR], GONE);
  if (load(&l->board[W_END])) end_process();
  int holder = load(&l->board[W_HOLDER]), self = load(&l->board[W_SELF]);
  int is_outcast = load(l->board + RANKS + self * RANK_WORDS) == LOST; /* then this is the end of the others' connection to it */
  if (holder >= 0 && !is_outcast) {
    lose(l, holder, why);
  } else {
    alert(l);
  }
}

/* The oldest waiting call, as text "peer detail age site"; 0 when nobody waits. */
static size_t oldest_wait(liveness *l, uint64_t now, char *out, size_t size, int *age_ms) {
  int found = -1;
  for (int i = 0; i < SLOT_COUNT; i++) {
    int32_t sequence = load(&l->board[SLOTS + i * SLOT_WORDS]);
    if (!(sequence & 1)) continue;
    if (l->seen[i].sequence != sequence) {
      l->seen[i].sequence = sequence;
      l->seen[i].since = now;
      l->seen[i].told = 0;
    }
    if (found < 0 || l->seen[i].since < l->seen[found].since) found = i;
  }
  if (found < 0) return 0;
  int32_t *slot = l->board + SLOTS + found * SLOT_WORDS;
  int32_t site = load(slot + 1);
  if (site < 0 || site >= SITE_COUNT) return 0;
  int32_t *name = l->board + SITES + site * SITE_WORDS;
  int32_t length = load(name);
  if (length < 0 || length > (SITE_WORDS - 1) * 4) return 0;
  *age_ms = (int)(now - l->seen[found].since);
  int n = snprintf(out, size, "%d %d %d %.*s", load(slot + 2), load(slot + 3), *age_ms, length, (const char *)(name + 1));
  return n < 0 || (size_t)n >= size ? 0 : (size_t)n;
}

static void tell_wait(liveness *l, uint64_t now) {
  char text[256];
  int age = 0;
  size_t length = oldest_wait(l, now, text, sizeof text, &age);
  send_frame(l, F_WAITING, length > 0 ? age : -1, text, length);
}

/* Tells the coordinator once for each call that waits longer than the stall time, and again each time that time has passed once more. */
static void look_for_stalls(liveness *l, uint64_t now) {
  char text[256];
  int age = 0, stall = load(&l->board[W_STALL_MS]);
  if (stall <= 0) return;
  size_t length = oldest_wait(l, now, text, sizeof text, &age);
  if (length == 0 || age < stall) return;
  for (int i = 0; i < SLOT_COUNT; i++) {
    if ((int)(now - l->seen[i].since) != age || !(load(&l->board[SLOTS + i * SLOT_WORDS]) & 1)) continue;
    if (age / stall <= l->seen[i].told) return;
    l->seen[i].told = age / stall;
    send_frame(l, F_STALL, age, text, length);
    return;
  }
}

static void take_frame(liveness *l, const frame *head, const char *text) {
  switch (head->type) {
    case F_LEFT:
      set_state(l, head->rank, LEFT, text, (size_t)head->length);
      break;
    case F_LOST:
      set_state(l, head->rank, LOST, text, (size_t)head->length);
      break;
    case F_WHERE:
      tell_wait(l, now_ms());
      break;
    case F_BYE:
      store(&l->board[W_COORDINATOR], GOODBYE);
      alert(l);
      break;
    case F_REPORT:
      memcpy(l->board + REPORT, text, (size_t)head->length);
      store(&l->board[W_REPORT_LENGTH], head->length);
      __atomic_add_fetch(&l->board[W_REPORTS], 1, __ATOMIC_SEQ_CST);
      alert(l);
      break;
    default: /* BEAT: hearing it was all */
      break;
  }
}

static void hear(liveness *l) {
  for (;;) {
    ssize_t n = recv(l->socket, l->input + l->filled, sizeof l->input - l->filled, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      lifeline_lost(l, "its connection closed: the process ended without a word");
      return;
    }
    l->heard = now_ms();
    l->filled += (size_t)n;
    size_t at = 0;
    frame head;
    while (l->filled - at >= sizeof head) {
      memcpy(&head, l->input + at, sizeof head);
      if (head.length < 0 || (size_t)head.length > sizeof l->input - sizeof head) {
        lifeline_lost(l, "its lifeline carried something that is no frame");
        return;
      }
      if (l->filled - at < sizeof head + (size_t)head.length) break;
      take_frame(l, &head, l->input + at + sizeof head);
      at += sizeof head + (size_t)head.length;
    }
    memmove(l->input, l->input + at, l->filled - at);
    l->filled -= at;
  }
}

/* ---- time ---- */

static int sooner(int wait, uint64_t at, uint64_t now) {
  int ms = at <= now ? 0 : (int)(at - now);
  return wait < 0 || ms < wait ? ms : wait;
}

/* Does what is due and returns how long nothing is, ms. */
static int advance(liveness *l) {
  uint64_t now = now_ms();
  int wait = -1;
  int beat = load(&l->board[W_HEARTBEAT_MS]), silence = load(&l->board[W_SILENCE_MS]), stall = load(&l->board[W_STALL_MS]);
  if (l->socket >= 0 && beat > 0) {
    if (now >= l->next_beat) {
      send_frame(l, F_BEAT, 0, NULL, 0);
      l->next_beat = now + (uint64_t)beat;
    }
    if (silence > 0 && now - l->heard > (uint64_t)silence) hear(l); /* this process may have been the silent one: it was stopped */
    if (l->socket >= 0 && silence > 0 && now_ms() - l->heard > (uint64_t)silence) {
      char why[128];
      snprintf(why, sizeof why, "no word from its host for %d ms: the host or the network between is gone", silence);
      lifeline_lost(l, why);
    }
    wait = sooner(wait, l->next_beat, now);
  }
  if (l->socket >= 0 && stall > 0) {
    if (now >= l->next_look) {
      look_for_stalls(l, now);
      int step = stall / 8;
      l->next_look = now + (uint64_t)(step < 20 ? 20 : step > 2000 ? 2000 : step);
    }
    wait = sooner(wait, l->next_look, now);
  }
  pthread_mutex_lock(&l->lock);
  for (int rank = 0; rank < l->size; rank++) {
    uint64_t deadline = l->peers[rank].deadline;
    if (deadline == 0) continue;
    if (now >= deadline) {
      l->peers[rank].deadline = 0;
      lose(l, rank, "its process is gone");
    } else {
      wait = sooner(wait, deadline, now);
    }
  }
  pthread_mutex_unlock(&l->lock);
  return wait;
}

static void *run(void *argument) {
  liveness *l = argument;
  for (;;) {
    struct epoll_event events[16];
    int n = epoll_wait(l->epoll, events, 16, advance(l));
    for (int i = 0; i < n; i++) {
      int32_t who = (int32_t)events[i].data.u32;
      if (who == -1) {
        uint64_t drained;
        ssize_t ignored = read(l->wake, &drained, sizeof drained);
        (void)ignored;
      } else if (who == -2) {
        if (l->socket >= 0) hear(l);
      } else {
        pthread_mutex_lock(&l->lock);
        if (l->peers[who].pidfd >= 0) {
          close(l->peers[who].pidfd);
          l->peers[who].pidfd = -1;
          l->peers[who].deadline = now_ms() + CONFIRM_MS;
        }
        pthread_mutex_unlock(&l->lock);
      }
    }
    if (__atomic_load_n(&l->stop, __ATOMIC_SEQ_CST)) return NULL;
  }
}

/* ---- from outside ---- */

static int connect_to(const char *address, int port, int *out) {
  struct sockaddr_storage to = {0};
  struct sockaddr_in *v4 = (struct sockaddr_in *)&to;
  struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&to;
  socklen_t length;
  if (inet_pton(AF_INET, address, &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons((uint16_t)port);
    length = sizeof *v4;
  } else if (inet_pton(AF_INET6, address, &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons((uint16_t)port);
    length = sizeof *v6;
  } else {
    return EINVAL;
  }
  int fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return errno;
  int error = connect(fd, (struct sockaddr *)&to, length) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    struct pollfd wait = {.fd = fd, .events = POLLOUT};
    socklen_t size = sizeof error;
    if (poll(&wait, 1, CONNECT_MS) <= 0) {
      error = ETIMEDOUT;
    } else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
      error = errno;
    }
  }
  if (error) {
    close(fd);
    return error;
  }
  int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  *out = fd;
  return 0;
}

static void release(liveness *l) {
  if (l->socket >= 0) close(l->socket);
  if (l->epoll >= 0) close(l->epoll);
  if (l->wake >= 0) close(l->wake);
  for (int rank = 0; l->peers && rank < l->size; rank++) {
    if (l->peers[rank].pidfd >= 0) close(l->peers[rank].pidfd);
  }
  pthread_mutex_destroy(&l->lock);
  free(l->peers);
  free(l);
}

int liveness_start(int32_t *board, int bell, const char *address, int port, const char *ticket, liveness **out) {
  liveness *l = calloc(1, sizeof *l);
  if (!l) return ENOMEM;
  l->board = board;
  l->bell = bell;
  l->socket = l->epoll = l->wake = -1;
  l->size = board[W_SIZE];
  pthread_mutex_init(&l->lock, NULL);
  l->peers = calloc((size_t)l->size, sizeof *l->peers);
  for (int rank = 0; l->peers && rank < l->size; rank++) l->peers[rank].pidfd = -1;
  int error = l->peers ? connect_to(address, port, &l->socket) : ENOMEM;
  if (!error) error = send_frame(l, F_ATTACH, 0, ticket, strlen(ticket));
  if (!error) {
    struct epoll_event wake = {.events = EPOLLIN, .data.u32 = (uint32_t)-1};
    struct epoll_event line = {.events = EPOLLIN, .data.u32 = (uint32_t)-2};
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l->epoll < 0 || l->wake < 0 || epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->wake, &wake) != 0 ||
        epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->socket, &line) != 0) {
      error = errno;
    }
  }
  l->heard = now_ms();
  if (!error) error = thread_start(&l->thread, run, l);
  if (error) {
    release(l);
    return error;
  }
  *out = l;
  return 0;
}

int liveness_watch(liveness *l, int rank, pid_t pid, uint64_t start_time) {
  if (rank < 0 || rank >= l->size) return EINVAL;
  int fd = (int)syscall(SYS_pidfd_open, pid, 0);
  int gone = fd < 0 && errno == ESRCH;
  if (fd < 0 && !gone) return errno; /* an old kernel: the coordinator's word remains */
  if (process_is_gone(pid, start_time)) gone = 1; /* a descriptor of a reused pid is a descriptor of a stranger */
  pthread_mutex_lock(&l->lock);
  if (gone) {
    if (fd >= 0) close(fd);
    l->peers[rank].deadline = now_ms() + CONFIRM_MS;
  } else {
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)rank};
    l->peers[rank].pidfd = fd;
    epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &event);
  }
  pthread_mutex_unlock(&l->lock);
  uint64_t one = 1;
  ssize_t ignored = write(l->wake, &one, sizeof one);
  (void)ignored;
  return 0;
}

void liveness_leave(liveness *l, int code) {
  if (__atomic_exchange_n(&l->left, 1, __ATOMIC_SEQ_CST)) return;
  send_frame(l, F_LEAVE, code, NULL, 0);
}

void liveness_stop(liveness *l) {
  uint64_t one = 1;
  __atomic_store_n(&l->stop, 1, __ATOMIC_SEQ_CST);
  ssize_t ignored = write(l->wake, &one, sizeof one);
  (void)ignored;
  pthread_join(l->thread, NULL);
  release(l);
}
