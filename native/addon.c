/*
 * The doorway: what JavaScript sees of the C files beside this one. src/native/addon.ts types it.
 *
 * Hot functions take no arguments: they read a block of numbers that JavaScript shares (24 to 30 ns a call instead of 60 and more).
 * Addresses travel as doubles: user addresses are below 2^53.
 *
 *   command[0..3] arguments      command[4] result (errno or a flag)      command[5..7] 64-bit operands and the old value
 *
 * Every thread and registration is listed per environment, so that the end of a worker stops it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NAPI_VERSION 8
#include <node_api.h>

#include "datagram.h"
#include "collective.h"
#include "dataset-addon.h"
#include "kernel-table.h"
#include "liveness.h"
#include "memory.h"
#include "notify.h"
#include "reduce.h"
#include "transfer.h"
#include "uv.h"
#include "watch.h"

#define MAX_ARGUMENTS 14

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

typedef struct resource {
  struct resource *next;
  void *pointer;
  void (*stop)(void *);
} resource;

typedef struct bell {
  napi_env env;
  napi_ref callback;
  uv_handle_t *poll;
  int read_fd, write_fd, closing;
  napi_async_cleanup_hook_handle hook;
} bell;

typedef struct state {
  double command[64];
  resource *resources;
} state;

static state *state_of(napi_env env) {
  void *data = NULL;
  napi_get_instance_data(env, &data);
  return data;
}

/* ---- arguments and results ---- */

typedef struct call {
  napi_env env;
  napi_value v[MAX_ARGUMENTS];
} call;

static call arguments(napi_env env, napi_callback_info info) {
  call c = {.env = env};
  size_t n = MAX_ARGUMENTS;
  napi_get_cb_info(env, info, &n, c.v, NULL, NULL);
  return c;
}

static double number_at(call *c, int i) {
  double value = 0;
  napi_get_value_double(c->env, c->v[i], &value);
  return value;
}

static int int_at(call *c, int i) { return (int)number_at(c, i); }
static void *pointer_at(call *c, int i) { return (void *)(uintptr_t)number_at(c, i); }

static void text_at(call *c, int i, char *out, size_t size) {
  size_t length;
  out[0] = 0;
  napi_get_value_string_utf8(c->env, c->v[i], out, size, &length);
}

static void *bytes_at(call *c, int i, size_t *length) {
  void *data = NULL;
  size_t elements = 0;
  napi_typedarray_type type;
  *length = 0;
  if (napi_get_typedarray_info(c->env, c->v[i], &type, &elements, &data, NULL, NULL) != napi_ok) return NULL;
  *length = elements;
  return data;
}

static napi_value number(napi_env env, double value) {
  napi_value out;
  napi_create_double(env, value, &out);
  return out;
}

static napi_value pointer(napi_env env, const void *p) { return number(env, (double)(uintptr_t)p); }

/* ---- resources of an environment ---- */

static void adopt(napi_env env, void *p, void (*stop)(void *)) {
  resource *r = malloc(sizeof *r);
  if (!r) abort();
  state *s = state_of(env);
  *r = (resource){s->resources, p, stop};
  s->resources = r;
}

static void dismiss(napi_env env, void *p) {
  for (resource **at = &state_of(env)->resources; *at; at = &(*at)->next) {
    resource *r = *at;
    if (r->pointer != p) continue;
    *at = r->next;
    r->stop(p);
    free(r);
    return;
  }
}

static napi_value stop_resource(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  dismiss(env, pointer_at(&c, 0));
  return NULL;
}

static void stop_all(void *data) {
  state *s = data;
  while (s->resources) {
    resource *r = s->resources;
    s->resources = r->next;
    r->stop(r->pointer);
    free(r);
  }
}

/* ---- hot functions ---- */

#define HOT(name) static napi_value name(napi_env env, napi_callback_info info)
#define COMMAND                              \
  (void)info;                                \
  double *command = state_of(env)->command; \
  uint64_t *wide = (uint64_t *)command;      \
  (void)wide

HOT(hot_copy) {
  COMMAND;
  memcpy((void *)(uintptr_t)command[0], (const void *)(uintptr_t)command[1], (size_t)command[2]);
  return NULL;
}

HOT(hot_write_process) {
  COMMAND;
  command[4] = memory_write_process((pid_t)command[3], (uint64_t)command[0], (const void *)(uintptr_t)command[1], (size_t)command[2]);
  return NULL;
}

HOT(hot_read_process) {
  COMMAND;
  command[4] = memory_read_process((pid_t)command[3], (uint64_t)command[1], (void *)(uintptr_t)command[0], (size_t)command[2]);
  return NULL;
}

HOT(hot_fetch_add) {
  COMMAND;
  wide[6] = memory_fetch_add((uint64_t *)(uintptr_t)command[0], wide[5]);
  return NULL;
}

HOT(hot_compare_swap) {
  COMMAND;
  wide[6] = memory_compare_swap((uint64_t *)(uintptr_t)command[0], wide[5], wide[7]);
  return NULL;
}

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

HOT(hot_datagram_receive) {
  COMMAND;
  command[4] = datagram_receive((datagram *)(uintptr_t)command[0], (uint8_t *)(uintptr_t)command[1], (uint32_t *)(uintptr_t)command[2],
                                (int)command[3]);
  return NULL;
}

HOT(hot_datagram_send) {
  COMMAND;
  int error;
  command[4] = datagram_send((datagram *)(uintptr_t)command[0], (uint8_t *)(uintptr_t)command[1], (uint32_t *)(uintptr_t)command[2],
                             (int)command[3], &error);
  command[5] = error;
  return NULL;
}

HOT(hot_datagram_wait) {
  COMMAND;
  command[4] = datagram_wait((datagram *)(uintptr_t)command[0], command[1], command[2] != 0);
  return NULL;
}

HOT(hot_datagram_wake) {
  COMMAND;
  datagram_wake((datagram *)(uintptr_t)command[0]);
  return NULL;
}

/* 0 own, 1 other, 2 elements, 3 type, 4 operation, 5 divisor */
HOT(hot_reduce) {
  COMMAND;
  reduce_into((int)command[3], (int)command[4], (void *)(uintptr_t)command[0], (const void *)(uintptr_t)command[1], (size_t)command[2],
              (int)command[5]);
  return NULL;
}

/* The kernels of neural networks have a part of the block of their own: command[16] which one, then its arguments. */
HOT(hot_kernel) {
  COMMAND;
  command[4] = kernel_call(command + 16);
  return NULL;
}

static napi_value barrier_js(napi_env env, napi_callback_info info) {
  (void)info;
  return number(env, memory_barrier());
}

static napi_value register_barrier_js(napi_env env, napi_callback_info info) {
  (void)info;
  return number(env, memory_register_barrier());
}

static napi_value command_block(napi_env env, napi_callback_info info) {
  (void)info;
  napi_value out;
  state *s = state_of(env);
  napi_create_external_arraybuffer(env, s->command, sizeof s->command, NULL, NULL, &out);
  return out;
}

/* ---- memory ---- */

static napi_value memory_create_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  char name[128];
  text_at(&c, 0, name, sizeof name);
  return number(env, memory_create(name, int_at(&c, 1)));
}

static napi_value memory_create_in_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  char directory[4096];
  text_at(&c, 0, directory, sizeof directory);
  return number(env, memory_create_in(directory));
}

static napi_value memory_reserve_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  return number(env, memory_reserve(int_at(&c, 0), (uint64_t)number_at(&c, 1), (uint64_t)number_at(&c, 2)));
}

static napi_value memory_release_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  return number(env, memory_release(int_at(&c, 0), (uint64_t)number_at(&c, 1), (uint64_t)number_at(&c, 2)));
}

static void finalize_view(napi_env env, void *data, void *hint) {
  (void)env;
  (void)data;
  mapping_release(hint);
}

static napi_value view_of(napi_env env, mapping *m, size_t offset, size_t length) {
  napi_value out;
  mapping_retain(m);
  if (napi_create_external_arraybuffer(env, m->base + offset, length, finalize_view, m, &out) != napi_ok) {
    mapping_release(m);
    napi_throw_error(env, "VERBENA_NATIVE", "this Node build cannot wrap mapped memory in an ArrayBuffer");
    return NULL;
  }
  return out;
}

/* map(fd, offset, length, writable) -> [mapping, address], or errno */
static napi_value memory_map_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  mapping *m;
  int error = memory_map(int_at(&c, 0), (uint64_t)number_at(&c, 1), (size_t)number_at(&c, 2), int_at(&c, 3), &m);
  if (error) return number(env, error);
  napi_value out;
  napi_create_array_with_length(env, 2, &out);
  napi_set_element(env, out, 0, pointer(env, m));
  napi_set_element(env, out, 1, pointer(env, m->base));
  return out;
}

static napi_value memory_view_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  return view_of(env, pointer_at(&c, 0), (size_t)number_at(&c, 1), (size_t)number_at(&c, 2));
}

/* viewAt(address, length): memory of this process that another thread owns; the caller keeps the owner's buffer alive. */
static napi_value memory_view_at_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  napi_value out;
  if (napi_create_external_arraybuffer(env, pointer_at(&c, 0), (size_t)number_at(&c, 1), NULL, NULL, &out) != napi_ok) {
    napi_throw_error(env, "VERBENA_NATIVE", "this Node build cannot wrap memory in an ArrayBuffer");
    return NULL;
  }
  return out;
}

/* Lets go of map's own reference; views keep the memory mapped as long as they live. */
static napi_value memory_unmap_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  mapping_release(pointer_at(&c, 0));
  return NULL;
}

static napi_value address_of(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  void *data = NULL;
  size_t length;
  napi_get_arraybuffer_info(env, c.v[0], &data, &length);
  return pointer(env, data);
}

static napi_value is_detached(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  bool detached = false;
  napi_value out;
  napi_is_detached_arraybuffer(env, c.v[0], &detached);
  napi_get_boolean(env, detached, &out);
  return out;
}

/* ---- bell ---- */

static void bell_closed(uv_handle_t *handle) {
  bell *b = uv_handle_get_data(handle);
  close(b->read_fd);
  close(b->write_fd);
  free(handle);
  napi_remove_async_cleanup_hook(b->hook);
  free(b);
}

static void bell_close(bell *b) {
  if (b->closing) return;
  b->closing = 1;
  napi_delete_reference(b->env, b->callback);
  uv_close(b->poll, bell_closed);
}

static void bell_cleanup(napi_async_cleanup_hook_handle handle, void *data) {
  (void)handle;
  bell_close(data);
}

static void bell_rang(uv_handle_t *handle, int status, int events) {
  (void)status;
  (void)events;
  bell *b = uv_handle_get_data(handle);
  char drained[512];
  while (read(b->read_fd, drained, sizeof drained) == (ssize_t)sizeof drained) {
  }
  napi_handle_scope scope;
  napi_value callback, global, result;
  napi_open_handle_scope(b->env, &scope);
  napi_get_reference_value(b->env, b->callback, &callback);
  napi_get_global(b->env, &global);
  if (napi_make_callback(b->env, NULL, global, callback, 0, NULL, &result) == napi_pending_exception) {
    napi_value error;
    napi_get_and_clear_last_exception(b->env, &error);
    napi_fatal_exception(b->env, error);
  }
  napi_close_handle_scope(b->env, scope);
}

/* bellOpen(callback) -> [bell, fd that peers write to], or errno */
static napi_value bell_open_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  int fds[2];
  if (pipe2(fds, O_NONBLOCK | O_CLOEXEC) != 0) return number(env, errno);
  bell *b = calloc(1, sizeof *b);
  uv_loop_t *loop;
  if (!b) abort();
  b->env = env;
  b->read_fd = fds[0];
  b->write_fd = fds[1];
  b->poll = calloc(1, uv_handle_size(VERBENA_UV_POLL));
  if (!b->poll) abort();
  napi_get_uv_event_loop(env, (struct uv_loop_s **)&loop);
  uv_poll_init(loop, b->poll, b->read_fd);
  uv_handle_set_data(b->poll, b);
  napi_create_reference(env, c.v[0], 1, &b->callback);
  napi_add_async_cleanup_hook(env, bell_cleanup, b, &b->hook);
  uv_poll_start(b->poll, VERBENA_UV_READABLE, bell_rang);
  uv_unref(b->poll);
  napi_value out;
  napi_create_array_with_length(env, 2, &out);
  napi_set_element(env, out, 0, pointer(env, b));
  napi_set_element(env, out, 1, number(env, fds[1]));
  return out;
}

static napi_value bell_hold_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  bell *b = pointer_at(&c, 0);
  if (b->closing) return NULL;
  if (int_at(&c, 1)) {
    uv_ref(b->poll);
  } else {
    uv_unref(b->poll);
  }
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

/* ---- datagrams ---- */

static void stop_datagram(void *p) { datagram_close(p); }

/* datagramOpen(network, address, port, buffer bytes) -> datagram, or -errno */
static napi_value datagram_open_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  char network[512], address[80];
  datagram *d;
  text_at(&c, 0, network, sizeof network);
  text_at(&c, 1, address, sizeof address);
  int error = datagram_open(network[0] ? network : NULL, address, int_at(&c, 2), int_at(&c, 3), &d);
  if (error) return number(env, -error);
  adopt(env, d, stop_datagram);
  return pointer(env, d);
}

/* datagramPort(datagram), datagramBuffer(datagram) */
static napi_value datagram_port_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  return number(env, datagram_port(pointer_at(&c, 0)));
}

static napi_value datagram_buffer_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  return number(env, datagram_buffer(pointer_at(&c, 0)));
}

/* datagramJoin(datagram, group, port) -> its number, or -errno; datagramLeave(datagram, number) */
static napi_value datagram_join_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  char group[80];
  text_at(&c, 1, group, sizeof group);
  return number(env, datagram_join(pointer_at(&c, 0), group, int_at(&c, 2)));
}

static napi_value datagram_leave_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  datagram_leave(pointer_at(&c, 0), int_at(&c, 1));
  return NULL;
}

/* ---- liveness ---- */

static void stop_liveness(void *p) { liveness_stop(p); }

/* livenessStart(board, bell, address, port, ticket) -> liveness, or -errno */
static napi_value liveness_start_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  char address[64], ticket[128];
  liveness *l;
  text_at(&c, 2, address, sizeof address);
  text_at(&c, 4, ticket, sizeof ticket);
  int error = liveness_start(pointer_at(&c, 0), int_at(&c, 1), address, int_at(&c, 3), ticket, &l);
  if (error) return number(env, -error);
  adopt(env, l, stop_liveness);
  return pointer(env, l);
}

static napi_value liveness_watch_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  return number(env, liveness_watch(pointer_at(&c, 0), int_at(&c, 1), (pid_t)number_at(&c, 2), (uint64_t)number_at(&c, 3)));
}

static napi_value liveness_leave_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  liveness_leave(pointer_at(&c, 0), int_at(&c, 1));
  return NULL;
}

static napi_value guard_start_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  return number(env, guard_start(int_at(&c, 0)));
}

/* ---- collectives ---- */

/*
 * A call as a block of doubles, 2,048 bytes; src/collectives/shared-memory/call.ts writes it:
 *   0 collective  1 method  2 which  3 op  4 type  5 root  6 divisor  7 identity  8 count  9 program  10 timeout, ms  11 buffers  12 bell
 *   13 done (a 32-bit word)  14 times wanted   16..25 report  26..28 times   32 + 10 b: address, bytes, offsets, handle, first, window, exposed, in, out
 * The second half holds the same call as C sees it.
 */
static collective_call *call_in(double *b) {
  collective_call *call = (collective_call *)(b + 128);
  _Static_assert(sizeof *call <= 1024, "fits into the block");
  *call = (collective_call){(int)b[1], (int)b[2], (int)b[3], (int)b[4], (int)b[5], (int)b[6], (int32_t)b[7], (uint64_t)b[8],
                            (const int32_t *)(uintptr_t)b[9], b[10], (int)b[11], .report = b + 16, .times = b[14] != 0 ? b + 26 : NULL};
  for (int i = 0; i < call->buffers && i < COLLECTIVE_BUFFERS; i++) {
    const double *f = b + 32 + 10 * i;
    call->buffer[i] = (collective_buffer){(uint8_t *)(uintptr_t)f[0], (uint64_t)f[1], (const double *)(uintptr_t)f[2], (int)f[3],
                                          (int)f[4], (int)f[5], (int)f[6], (int)f[7], (int)f[8]};
  }
  return call;
}

HOT(hot_collective_run) {
  COMMAND;
  double *block = (double *)(uintptr_t)command[0];
  collective_run((collective *)(uintptr_t)block[0], call_in(block));
  return NULL;
}

static napi_value collective_submit_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  double *block = pointer_at(&c, 0);
  return number(env, collective_submit((collective *)(uintptr_t)block[0], call_in(block), (int32_t *)(block + 13), (int)block[12]));
}

static void stop_collective(void *c) { collective_close(c); }

/* collectiveOpen(rank, size) -> [collective, descriptor] or errno */
static napi_value collective_open_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  collective *opened;
  int fd, error = collective_open(int_at(&c, 0), int_at(&c, 1), &opened, &fd);
  if (error) return number(env, error);
  adopt(env, opened, stop_collective);
  napi_value out;
  napi_create_array_with_length(env, 2, &out);
  napi_set_element(env, out, 0, pointer(env, opened));
  napi_set_element(env, out, 1, number(env, fd));
  return out;
}

static napi_value collective_join_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  return number(env, collective_join(pointer_at(&c, 0), int_at(&c, 1), (pid_t)number_at(&c, 2), int_at(&c, 3)));
}

static napi_value collective_share_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  uint64_t offset;
  return number(env, collective_share(pointer_at(&c, 0), pointer_at(&c, 1), &offset));
}

static napi_value collective_abort_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  collective_abort(pointer_at(&c, 0));
  return NULL;
}

static napi_value collective_completed_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  return number(env, collective_completed(pointer_at(&c, 0)));
}

static napi_value collective_peer_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  return number(env, collective_peer(pointer_at(&c, 0), int_at(&c, 1)));
}

/* ---- processes ---- */

/* processStat(pid) -> [start time, state letter as a number], or undefined */
static napi_value process_stat_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  uint64_t start_time;
  char letter;
  if (process_stat((pid_t)number_at(&c, 0), &start_time, &letter) != 0) return NULL;
  napi_value out;
  napi_create_array_with_length(env, 2, &out);
  napi_set_element(env, out, 0, number(env, (double)start_time));
  napi_set_element(env, out, 1, number(env, letter));
  return out;
}

/* allowTracing(pid): Yama level 1 lets only declared processes read our memory; -1 declares any of the same user. */
static napi_value allow_tracing(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  double pid = number_at(&c, 0);
  unsigned long who = pid < 0 ? (unsigned long)-1 : (unsigned long)pid; /* PR_SET_PTRACER_ANY is -1 */
  return number(env, prctl(0x59616d61 /* PR_SET_PTRACER */, who, 0, 0, 0) == 0 ? 0 : errno);
}

static napi_value pin_thread(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(int_at(&c, 0), &set);
  return number(env, sched_setaffinity(0, sizeof set, &set) == 0 ? 0 : errno);
}

/* shortenSlice(us) -> errno. A thread with a short slice runs soon after it is woken, also beside one that spins; older kernels take no notice. */
static napi_value shorten_slice(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } attr = {.size = sizeof attr};
  if (syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0) != 0) return number(env, errno);
  attr.size = sizeof attr;
  attr.runtime = (uint64_t)(number_at(&c, 0) * 1000);
  return number(env, syscall(SYS_sched_setattr, 0, &attr, 0) == 0 ? 0 : errno);
}

static napi_value thread_id(napi_env env, napi_callback_info info) {
  (void)info;
  return number(env, (double)syscall(SYS_gettid));
}

/* peerUid(fd) -> user id at the other end of a unix socket, or -errno */
static napi_value peer_uid(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  struct ucred who;
  socklen_t length = sizeof who;
  if (getsockopt(int_at(&c, 0), SOL_SOCKET, SO_PEERCRED, &who, &length) != 0) return number(env, -errno);
  return number(env, who.uid);
}

static void finalize_state(napi_env env, void *data, void *hint) {
  (void)env;
  (void)hint;
  free(data);
}

static napi_value init(napi_env env, napi_value exports) {
  state *s = calloc(1, sizeof *s);
  if (!s) abort();
  napi_set_instance_data(env, s, finalize_state, NULL);
  napi_add_env_cleanup_hook(env, stop_all, s);
  static const struct {
    const char *name;
    napi_callback function;
  } table[] = {
      {"command", command_block},
      {"copy", hot_copy},
      {"writeProcess", hot_write_process},
      {"readProcess", hot_read_process},
      {"fetchAdd", hot_fetch_add},
      {"compareSwap", hot_compare_swap},
      {"notify", hot_notify},
      {"ring", hot_ring},
      {"transferHelp", hot_transfer_help},
      {"datagramReceive", hot_datagram_receive},
      {"datagramSend", hot_datagram_send},
      {"datagramWait", hot_datagram_wait},
      {"datagramWake", hot_datagram_wake},
      {"reduce", hot_reduce},
      {"kernel", hot_kernel},
      {"barrier", barrier_js},
      {"registerBarrier", register_barrier_js},
      {"create", memory_create_js},
      {"createIn", memory_create_in_js},
      {"reserve", memory_reserve_js},
      {"release", memory_release_js},
      {"map", memory_map_js},
      {"view", memory_view_js},
      {"viewAt", memory_view_at_js},
      {"unmap", memory_unmap_js},
      {"addressOf", address_of},
      {"isDetached", is_detached},
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
      {"datagramOpen", datagram_open_js},
      {"datagramPort", datagram_port_js},
      {"datagramBuffer", datagram_buffer_js},
      {"datagramJoin", datagram_join_js},
      {"datagramLeave", datagram_leave_js},
      {"livenessStart", liveness_start_js},
      {"livenessWatch", liveness_watch_js},
      {"livenessLeave", liveness_leave_js},
      {"guardStart", guard_start_js},
      {"collectiveOpen", collective_open_js},
      {"collectiveJoin", collective_join_js},
      {"collectiveShare", collective_share_js},
      {"collectiveRun", hot_collective_run},
      {"collectiveSubmit", collective_submit_js},
      {"collectiveAbort", collective_abort_js},
      {"collectiveCompleted", collective_completed_js},
      {"collectivePeer", collective_peer_js},
      {"datasetCall", dataset_call_js},
      {"datasetRun", dataset_run_js},
      {"datasetName", dataset_name_js},
      {"stop", stop_resource},
      {"processStat", process_stat_js},
      {"allowTracing", allow_tracing},
      {"pin", pin_thread},
      {"shortenSlice", shorten_slice},
      {"threadId", thread_id},
      {"peerUid", peer_uid},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    napi_value function;
    napi_create_function(env, table[i].name, NAPI_AUTO_LENGTH, table[i].function, NULL, &function);
    napi_set_named_property(env, exports, table[i].name, function);
  }
  return exports;
}

NAPI_MODULE(verbena, init)
