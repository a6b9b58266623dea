/* Life of an environment: its command block, what is stopped when it ends, and the functions that JavaScript calls. */
#include "addon.h"

#include <stdlib.h>

struct resource {
  struct resource *next;
  void *pointer;
  void (*stop)(void *);
};

static void insert(resource **at, void *p, void (*stop)(void *)) {
  resource *r = malloc(sizeof *r);
  if (!r) abort();
  *r = (resource){*at, p, stop};
  *at = r;
}

void adopt(napi_env env, void *p, void (*stop)(void *)) { insert(&state_of(env)->resources, p, stop); }

void adopt_ground(napi_env env, void *p, void (*stop)(void *)) {
  resource **end = &state_of(env)->resources;
  while (*end) end = &(*end)->next;
  insert(end, p, stop);
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

static napi_value command_block(napi_env env, napi_callback_info info) {
  (void)info;
  napi_value out = NULL;
  state *s = state_of(env);
  napi_create_external_arraybuffer(env, s->command, sizeof s->command, NULL, NULL, &out);
  return out;
}

static void finalize_state(napi_env env, void *data, void *hint) {
  (void)env;
  (void)hint;
  free(data);
}

NAPI_MODULE_INIT() {
  state *s = calloc(1, sizeof *s);
  if (!s) abort();
  napi_set_instance_data(env, s, finalize_state, NULL);
  napi_add_env_cleanup_hook(env, stop_all, s);
  static const door_function functions[] = {{"command", command_block}, {"stop", stop_resource}};
  door_export(env, exports, functions, sizeof functions / sizeof *functions);
  memory_door(env, exports);
  thread_door(env, exports);
  network_door(env, exports);
  collective_door(env, exports);
  process_door(env, exports);
  dataset_door(env, exports);
  return exports;
}
