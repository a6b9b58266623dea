/*
 * A descriptor that the event loop watches for an object of C, with the function of JavaScript that hears of it. The object stays until libuv has let go
 * of the descriptor.
 *
 * The few functions of libuv for it are declared here because the Node-API headers do not bring them. They are exported by every node binary, and libuv
 * keeps its ABI within version 1 (UV_POLL, the size queries and these signatures included).
 */
#ifndef VERBENA_UV_H
#define VERBENA_UV_H

#include <stdlib.h>

#include "door.h"

typedef struct uv_loop_s uv_loop_t;
typedef struct uv_handle_s uv_handle_t;

enum { VERBENA_UV_POLL = 8, VERBENA_UV_READABLE = 1 };

typedef void (*uv_poll_cb)(uv_handle_t *handle, int status, int events);
typedef void (*uv_close_cb)(uv_handle_t *handle);

size_t uv_handle_size(int type);
void uv_handle_set_data(uv_handle_t *handle, void *data);
void *uv_handle_get_data(const uv_handle_t *handle);
int uv_poll_init(uv_loop_t *loop, uv_handle_t *handle, int fd);
int uv_poll_start(uv_handle_t *handle, int events, uv_poll_cb callback);
int uv_poll_stop(uv_handle_t *handle);
void uv_close(uv_handle_t *handle, uv_close_cb callback);
void uv_ref(uv_handle_t *handle);
void uv_unref(uv_handle_t *handle);

typedef struct lookout {
  napi_env env;
  napi_ref callback;
  napi_async_cleanup_hook_handle hook;
  uv_handle_t *poll;
  void *object;
  void (*close)(void *object);
  void (*closed)(void *object);
} lookout;

static inline void lookout_at_end(napi_async_cleanup_hook_handle hook, void *l) {
  (void)hook;
  ((lookout *)l)->close(((lookout *)l)->object);
}

/* A lookout that does not keep the process alive; `rang` finds the object in the handle's data. `close` is called when the environment ends. */
static inline void lookout_open(lookout *l, napi_env env, int fd, napi_value callback, void *object, void (*close)(void *)) {
  uv_loop_t *loop;
  l->env = env;
  l->object = object;
  l->close = close;
  l->poll = calloc(1, uv_handle_size(VERBENA_UV_POLL));
  if (!l->poll) abort();
  napi_get_uv_event_loop(env, &loop);
  uv_poll_init(loop, l->poll, fd);
  uv_handle_set_data(l->poll, l);
  uv_unref(l->poll);
  napi_create_reference(env, callback, 1, &l->callback);
  napi_add_async_cleanup_hook(env, lookout_at_end, l, &l->hook);
}

static inline void lookout_hold(lookout *l, int on) {
  if (on) uv_ref(l->poll);
  else uv_unref(l->poll);
}

/* Calls the function; what it throws is an uncaught exception. */
static inline void lookout_tell(lookout *l, napi_value *argv, size_t argc) {
  napi_handle_scope scope;
  napi_value callback, global, result, error;
  napi_open_handle_scope(l->env, &scope);
  napi_get_reference_value(l->env, l->callback, &callback);
  napi_get_global(l->env, &global);
  if (napi_make_callback(l->env, NULL, global, callback, argc, argv, &result) == napi_pending_exception) {
    napi_get_and_clear_last_exception(l->env, &error);
    napi_fatal_exception(l->env, error);
  }
  napi_close_handle_scope(l->env, scope);
}

static inline void lookout_closed(uv_handle_t *handle) {
  lookout *l = uv_handle_get_data(handle);
  free(handle);
  napi_remove_async_cleanup_hook(l->hook);
  l->closed(l->object);
}

/* `closed` is called later, when nothing looks at the object any more. */
static inline void lookout_close(lookout *l, void (*closed)(void *)) {
  l->closed = closed;
  napi_delete_reference(l->env, l->callback);
  uv_close(l->poll, lookout_closed);
}

#endif
