/*
 * The doorway of the dataset kernels: called at once, or on a thread of Node's pool while the event loop goes on.
 *
 *   datasetCall(block: Float64Array) -> errno          datasetRun(block: Float64Array) -> promise of the errno
 *   datasetName(fd, path) -> errno                     gives an unnamed file (O_TMPFILE) its name
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "addon.h"
#include "dataset.h"

typedef struct job {
  napi_async_work work;
  napi_deferred deferred;
  napi_ref block;
  double *call;
  int error;
} job;

static double *block_of(napi_env env, napi_value value) {
  napi_typedarray_type type;
  size_t length = 0;
  void *data = NULL;
  if (napi_get_typedarray_info(env, value, &type, &length, &data, NULL, NULL) != napi_ok || type != napi_float64_array || length < 80) {
    napi_throw_type_error(env, "VERBENA_NATIVE", "a dataset kernel takes a Float64Array of 80 numbers");
    return NULL;
  }
  return data;
}

static napi_value dataset_call_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  double *block = block_of(env, c.v[0]);
  return block ? number(env, dataset_call(block)) : NULL;
}

static void execute(napi_env env, void *data) {
  (void)env;
  job *j = data;
  j->error = dataset_call(j->call);
}

static void complete(napi_env env, napi_status status, void *data) {
  job *j = data;
  napi_resolve_deferred(env, j->deferred, number(env, status == napi_ok ? j->error : ECANCELED));
  napi_delete_reference(env, j->block);
  napi_delete_async_work(env, j->work);
  free(j);
}

static napi_value dataset_run_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  napi_value promise, name;
  double *block = block_of(env, c.v[0]);
  napi_deferred deferred;
  if (!block || napi_create_promise(env, &deferred, &promise) != napi_ok) return NULL;
  job *j = calloc(1, sizeof *j);
  if (!j) abort();
  j->call = block;
  j->deferred = deferred;
  napi_create_reference(env, c.v[0], 1, &j->block);
  napi_create_string_utf8(env, "verbena.dataset", NAPI_AUTO_LENGTH, &name);
  napi_create_async_work(env, NULL, name, execute, complete, j, &j->work);
  napi_queue_async_work(env, j->work);
  return promise;
}

static napi_value dataset_name_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  char from[64], path[4096];
  text_at(&c, 1, path, sizeof path);
  snprintf(from, sizeof from, "/proc/self/fd/%d", int_at(&c, 0));
  return number(env, linkat(AT_FDCWD, from, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0 ? 0 : errno);
}

void dataset_door(napi_env env, napi_value exports) {
  static const door_function functions[] = {
      {"datasetCall", dataset_call_js},
      {"datasetRun", dataset_run_js},
      {"datasetName", dataset_name_js},
  };
  door_export(env, exports, functions, sizeof functions / sizeof *functions);
}
