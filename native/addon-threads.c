/* Bells that wake the event loop, farewells, and the threads that watch and copy. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "addon.h"
#include "notify.h"
#include "transfer.h"
#include "uv.h"
#include "watch.h"

typedef struct bell {
  lookout lookout;
  int read_fd, write_fd, closing;
} bell;

/* A context that tells its peers when it ends: takes back what it announced there, then their attention words and bells. */
typedef struct farewell {
  int32_t *state;
  struct {
    int32_t *attention;
    int bell;
    int32_t *announcements; /* two words: what this context said it is copying under */
  } *peers;
  int count, capacity;
} farewell;

HOT(hot_notify) {
  COMMAND;
  command[4] = notify_queue((int32_t *)(uintptr_t)command[0], (uint32_t)command[1], (int)command[2], (int)command[3]);
  return NULL;
}

HOT(hot_ring) {
  COMMAND;
  notify_ring((int)command[0]);
  return NULL;
}

HOT(hot_transfer_help) {
  COMMAND;
  command[4] = transfer_help((transfer *)(uintptr_t)command[0]);
  return NULL;
}

/* ---- bell ---- */

static void bell_closed(void *data) {
  bell *b = data;
  close(b->read_fd);
  close(b->write_fd);
  free(b);
}

static void bell_close(void *data) {
  bell *b = data;
  if (b->closing) return;
  b->closing = 1;
  lookout_close(&b->lookout, bell_closed);
}

static void bell_rang(uv_handle_t *handle, int status, int events) {
  (void)status;
  (void)events;
  lookout *l = uv_handle_get_data(handle);
  char drained[512];
  while (read(((bell *)l->object)->read_fd, drained, sizeof drained) == (ssize_t)sizeof drained) {
  }
  lookout_tell(l, NULL, 0);
}

/* bellOpen(callback) -> [bell, fd that peers write to], or errno */
static napi_value bell_open_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  int fds[2];
  if (pipe2(fds, O_NONBLOCK | O_CLOEXEC) != 0) return number(env, errno);
  bell *b = calloc(1, sizeof *b);
  if (!b) abort();
  b->read_fd = fds[0];
  b->write_fd = fds[1];
  lookout_open(&b->lookout, env, b->read_fd, c.v[0], b, bell_close);
  uv_poll_start(b->lookout.poll, VERBENA_UV_READABLE, bell_rang);
  return pair(env, pointer(env, b), number(env, fds[1]));
}

static napi_value bell_hold_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  bell *b = pointer_at(&c, 0);
  if (!b->closing) lookout_hold(&b->lookout, int_at(&c, 1));
  return NULL;
}

static napi_value bell_close_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  bell_close(pointer_at(&c, 0));
  return NULL;
}

/* ---- farewell ---- */

static void farewell_say(void *data) {
  farewell *f = data;
  __atomic_store_n(f->state, 2, __ATOMIC_SEQ_CST);
  for (int i = 0; i < f->count; i++) {
    __atomic_store_n(&f->peers[i].announcements[0], 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&f->peers[i].announcements[1], 0, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(f->peers[i].attention, 1, __ATOMIC_SEQ_CST);
    notify_ring(f->peers[i].bell);
  }
  free(f->peers);
  free(f);
}

static napi_value farewell_open_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  farewell *f = calloc(1, sizeof *f);
  if (!f) abort();
  f->state = pointer_at(&c, 0);
  adopt(env, f, farewell_say);
  return pointer(env, f);
}

static napi_value farewell_add_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  farewell *f = pointer_at(&c, 0);
  if (f->count == f->capacity) {
    f->capacity = f->capacity ? f->capacity * 2 : 8;
    f->peers = realloc(f->peers, (size_t)f->capacity * sizeof *f->peers);
    if (!f->peers) abort();
  }
  f->peers[f->count].attention = pointer_at(&c, 1);
  f->peers[f->count].bell = int_at(&c, 2);
  f->peers[f->count++].announcements = pointer_at(&c, 3);
  return NULL;
}

static napi_value farewell_remove_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  farewell *f = pointer_at(&c, 0);
  int32_t *attention = pointer_at(&c, 1);
  for (int i = 0; i < f->count; i++) {
    if (f->peers[i].attention == attention) f->peers[i] = f->peers[--f->count];
  }
  return NULL;
}

/* ---- watch, watcher, transfer ---- */

static void stop_watch(void *p) { watch_stop(p); }
static void stop_watcher(void *p) { watcher_stop(p); }
static void stop_transfer(void *p) { transfer_stop(p); }

static napi_value watch_start_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  watch *w;
  int error = watch_start(pointer_at(&c, 0), int_at(&c, 1), &w);
  if (error) return number(env, -error);
  adopt(env, w, stop_watch);
  return pointer(env, w);
}

static napi_value watch_add_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  return number(env, watch_add(pointer_at(&c, 0), (pid_t)number_at(&c, 1), (uint64_t)number_at(&c, 2), pointer_at(&c, 3)));
}

static napi_value watch_remove_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  watch_remove(pointer_at(&c, 0), int_at(&c, 1));
  return NULL;
}

static napi_value watcher_start_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  watcher *w;
  int error = watcher_start(int_at(&c, 0), int_at(&c, 1), &w);
  if (error) return number(env, -error);
  adopt(env, w, stop_watcher);
  return pointer(env, w);
}

static napi_value watcher_add_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  return number(env, watcher_add(pointer_at(&c, 0), pointer_at(&c, 1)));
}

static napi_value watcher_remove_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  watcher_remove(pointer_at(&c, 0), pointer_at(&c, 1));
  return NULL;
}

static napi_value watcher_asleep_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  return number(env, watcher_asleep(pointer_at(&c, 0)));
}

static napi_value watcher_wake_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  watcher_wake(pointer_at(&c, 0));
  return NULL;
}

static napi_value transfer_start_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  transfer *t;
  int error = transfer_start(pointer_at(&c, 0), pointer_at(&c, 1), int_at(&c, 2), &t);
  if (error) return number(env, -error);
  adopt(env, t, stop_transfer);
  return pointer(env, t);
}

/*
 * transferSubmit(transfer, parts: Float64Array [to, from, length, kind]*, count, pid, announcement, announce, serial, expected,
 *                slot, entry: Int32Array(16), cq, ring, solicited, bell)
 */
static napi_value transfer_submit_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  size_t length;
  double *flat = bytes_at(&c, 1, &length);
  transfer_request want = {.count = int_at(&c, 2), .pid = (pid_t)number_at(&c, 3)};
  transfer_part parts[64];
  if (!flat || want.count < 0 || want.count > 64 || (size_t)want.count * 4 > length) return number(env, EINVAL);
  for (int i = 0; i < want.count; i++) {
    parts[i] = (transfer_part){(uint64_t)flat[i * 4], (uint64_t)flat[i * 4 + 1], (uint64_t)flat[i * 4 + 2], (int)flat[i * 4 + 3]};
  }
  want.parts = parts;
  want.announcement = pointer_at(&c, 4);
  want.announce = int_at(&c, 5);
  want.serial = pointer_at(&c, 6);
  want.expected = int_at(&c, 7);
  want.slot = pointer_at(&c, 8);
  void *entry = bytes_at(&c, 9, &length);
  if (entry && length == 16) memcpy(want.entry, entry, sizeof want.entry);
  want.cq = pointer_at(&c, 10);
  want.ring = (uint32_t)number_at(&c, 11);
  want.solicited = int_at(&c, 12);
  want.cq_bell = int_at(&c, 13);
  return number(env, transfer_submit(pointer_at(&c, 0), &want));
}

static napi_value transfer_ring_at_end_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  transfer_ring_at_end(pointer_at(&c, 0), int_at(&c, 1));
  return NULL;
}

void thread_door(napi_env env, napi_value exports) {
  static const door_function functions[] = {
      {"notify", hot_notify},
      {"ring", hot_ring},
      {"transferHelp", hot_transfer_help},
      {"bellOpen", bell_open_js},
      {"bellHold", bell_hold_js},
      {"bellClose", bell_close_js},
      {"farewellOpen", farewell_open_js},
      {"farewellAdd", farewell_add_js},
      {"farewellRemove", farewell_remove_js},
      {"watchStart", watch_start_js},
      {"watchAdd", watch_add_js},
      {"watchRemove", watch_remove_js},
      {"watcherStart", watcher_start_js},
      {"watcherAdd", watcher_add_js},
      {"watcherRemove", watcher_remove_js},
      {"watcherAsleep", watcher_asleep_js},
      {"watcherWake", watcher_wake_js},
      {"transferStart", transfer_start_js},
      {"transferSubmit", transfer_submit_js},
      {"transferRingAtEnd", transfer_ring_at_end_js},
  };
  door_export(env, exports, functions, sizeof functions / sizeof *functions);
}
