#define _GNU_SOURCE
#include "watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TICK_MS 200      /* how often stopped processes, and processes without a pidfd, are looked at */
#define LOOKS_PER_TICK 256 /* of /proc, so that a thousand peers cost no more than a few */

typedef struct entry {
  pid_t pid; /* 0: free */
  int pidfd; /* -1 where the kernel has none, and after death */
  int dead;  /* reported; the entry stays taken until watch_remove, so that its handle is not reused under the caller */
  uint64_t start_time;
  int32_t *word;
} entry;

struct watch {
  pthread_t thread;
  pthread_mutex_t lock;
  int epoll, wake, stop;
  int no_pidfds; /* the kernel is too old for them (before 5.3) */
  int32_t *attention;
  int bell;
  entry *entries;
  int count, capacity;
  unsigned cursor;
};

int process_stat(pid_t pid, uint64_t *start_time, char *state) {
  char path[48], text[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT ? ESRCH : errno;
  ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return ESRCH;
  text[n] = 0;
  char *p = strrchr(text, ')'); /* the command may contain anything, also parentheses */
  if (!p || !p[1]) return ESRCH;
  p += 2;
  *state = *p;
  for (int field = 3; field < 22; field++) {
    p = strchr(p, ' ');
    if (!p) return ESRCH;
    p++;
  }
  *start_time = strtoull(p, NULL, 10);
  return 0;
}

int process_is_gone(pid_t pid, uint64_t start_time) {
  uint64_t found;
  char state;
  int error = process_stat(pid, &found, &state);
  return error ? error == ESRCH : found != start_time;
}

static void report(watch *w, entry *e, int32_t value) {
  __atomic_store_n(e->word, value, __ATOMIC_SEQ_CST);
  __atomic_add_fetch(w->attention, 1, __ATOMIC_SEQ_CST);
  ssize_t ignored = write(w->bell, "", 1);
  (void)ignored; /* a full pipe has a wake-up pending already */
}

/* Taken out of the set by hand: a child between fork and exec has a copy of the descriptor, and close alone would leave it there. */
static void close_pidfd(watch *w, entry *e) {
  if (e->pidfd < 0) return;
  epoll_ctl(w->epoll, EPOLL_CTL_DEL, e->pidfd, NULL);
  close(e->pidfd);
  e->pidfd = -1;
}

/* The pidfd knows best whether it ended: when the last thread is gone, while /proc shows a zombie as soon as the first one is. */
static int has_ended(entry *e, char state) {
  if (e->pidfd < 0) return state == 'Z' || state == 'X';
  struct pollfd p = {.fd = e->pidfd, .events = POLLIN};
  return poll(&p, 1, 0) == 1;
}

static void look(watch *w, entry *e) {
  uint64_t start_time = e->start_time;
  char state = 0;
  if (e->dead) return;
  int error = process_stat(e->pid, &start_time, &state);
  if (error == ESRCH || start_time != e->start_time || has_ended(e, state)) {
    e->dead = 1;
    close_pidfd(w, e);
    report(w, e, WATCH_DEAD);
    return;
  }
  if (error) return; /* nothing else is known now */
  int32_t value = state == 'T' ? WATCH_STOPPED : WATCH_RUNNING;
  if (value != __atomic_load_n(e->word, __ATOMIC_SEQ_CST)) report(w, e, value);
}

static uint64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void *run(void *argument) {
  watch *w = argument;
  uint64_t next = now_ms() + TICK_MS;
  for (;;) {
    struct epoll_event events[16];
    uint64_t now = now_ms();
    pthread_mutex_lock(&w->lock);
    int busy = w->count > 0;
    pthread_mutex_unlock(&w->lock);
    int n = epoll_wait(w->epoll, events, 16, !busy ? -1 : now >= next ? 0 : (int)(next - now));
    pthread_mutex_lock(&w->lock);
    if (w->stop) {
      pthread_mutex_unlock(&w->lock);
      return NULL;
    }
    for (int i = 0; i < n; i++) {
      uint32_t handle = events[i].data.u32;
      if (handle == UINT32_MAX) {
        uint64_t drained;
        ssize_t ignored = read(w->wake, &drained, sizeof drained);
        (void)ignored;
        continue;
      }
      /* Only a hint: between epoll_wait and the lock the handle may have got another owner. */
      if (w->entries[handle].pid != 0) look(w, &w->entries[handle]);
    }
    if (now_ms() >= next) {
      for (int i = 0; i < w->count && i < LOOKS_PER_TICK; i++) {
        entry *e = &w->entries[w->cursor++ % (unsigned)w->count];
        if (e->pid != 0) look(w, e);
      }
      next = now_ms() + TICK_MS;
    }
    pthread_mutex_unlock(&w->lock);
  }
}

int watch_start(int32_t *attention, int bell, watch **out) {
  watch *w = calloc(1, sizeof *w);
  if (!w) return ENOMEM;
  w->attention = attention;
  w->bell = bell;
  w->epoll = epoll_create1(EPOLL_CLOEXEC);
  w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  struct epoll_event event = {.events = EPOLLIN, .data.u32 = UINT32_MAX};
  pthread_mutex_init(&w->lock, NULL);
  int error = 0;
  if (w->epoll < 0 || w->wake < 0 || epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->wake, &event) != 0) error = errno;
  if (!error) error = pthread_create(&w->thread, NULL, run, w);
  if (error) {
    if (w->epoll >= 0) close(w->epoll);
    if (w->wake >= 0) close(w->wake);
    free(w);
    return error;
  }
  *out = w;
  return 0;
}

static void poke(watch *w) {
  uint64_t one = 1;
  ssize_t ignored = write(w->wake, &one, sizeof one);
  (void)ignored;
}

int watch_add(watch *w, pid_t pid, uint64_t start_time, int32_t *word) {
  pthread_mutex_lock(&w->lock);
  int handle = 0;
  while (handle < w->count && w->entries[handle].pid != 0) handle++;
  if (handle == w->capacity) {
    int capacity = w->capacity ? w->capacity * 2 : 16;
    entry *grown = realloc(w->entries, (size_t)capacity * sizeof *grown);
    if (!grown) {
      pthread_mutex_unlock(&w->lock);
      return -ENOMEM;
    }
    w->entries = grown;
    w->capacity = capacity;
  }
  if (handle == w->count) w->count++;
  entry *e = &w->entries[handle];
  e->pid = pid;
  e->dead = 0;
  e->start_time = start_time;
  e->word = word;
  e->pidfd = w->no_pidfds ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
  if (e->pidfd < 0 && errno == ENOSYS) w->no_pidfds = 1;
  if (e->pidfd >= 0) {
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)handle};
    epoll_ctl(w->epoll, EPOLL_CTL_ADD, e->pidfd, &event);
  }
  look(w, e); /* it may have died before it was watched */
  pthread_mutex_unlock(&w->lock);
  poke(w);
  return handle;
}

void watch_remove(watch *w, int handle) {
  pthread_mutex_lock(&w->lock);
  if (handle >= 0 && handle < w->count) {
    entry *e = &w->entries[handle];
    if (e->pid != 0) close_pidfd(w, e);
    e->pid = 0;
  }
  while (w->count > 0 && w->entries[w->count - 1].pid == 0) w->count--;
  pthread_mutex_unlock(&w->lock);
}

void watch_stop(watch *w) {
  pthread_mutex_lock(&w->lock);
  w->stop = 1;
  pthread_mutex_unlock(&w->lock);
  poke(w);
  pthread_join(w->thread, NULL);
  for (int i = 0; i < w->count; i++) {
    if (w->entries[i].pid != 0 && w->entries[i].pidfd >= 0) close(w->entries[i].pidfd);
  }
  close(w->epoll);
  close(w->wake);
  pthread_mutex_destroy(&w->lock);
  free(w->entries);
  free(w);
}
