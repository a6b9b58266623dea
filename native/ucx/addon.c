/*
 * The doorway to UCX: what JavaScript sees of engine.c. src/messaging/ucx/addon.ts types it.
 *
 * The hot function takes no arguments: `run` executes the commands that stand in the rings of the current worker, makes progress and leaves
 * events there. Everything else is for setting up. Pointers travel as doubles (user addresses are below 2^53); a negative number is a ucs_status_t.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucs/config/parser.h>
#include <ucs/datastruct/list.h>
#include <uct/api/uct.h>

#include "door.h"
#include "engine.h"
#include "uv.h"

typedef struct door {
  lookout lookout;
  engine *engine;
  napi_ref rings;
  int is_polling;
} door;

/* ---- context and memory ---- */

/* The names that UCX looks for in the environment, by its own rule: a table within a table goes under its own prefix and under that of the outer one. */
static void print_names(FILE *out, const ucs_config_field_t *field, const char *prefix, int is_outer) {
  for (; field->name; field++) {
    if (field->parser.read != ucs_config_sscanf_table) {
      fprintf(out, "%s%s\n", prefix ? prefix : "", field->name);
      continue;
    }
    if (is_outer) print_names(out, field->parser.arg, field->name, 1);
    if (prefix) print_names(out, field->parser.arg, prefix, 0);
  }
}

enum { OF_CONTEXTS, OF_TRANSPORTS, READ_AT_LOAD };

/*
 * settingNames(whose) -> lines: what a context can be told, what the transports that are installed have, or what is read but once; nothing where UCX was
 * exchanged for another version since this was compiled, because its tables may be laid out in another way
 */
static napi_value setting_names(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  unsigned major, minor, release;
  ucp_get_version(&major, &minor, &release);
  if (major != UCP_API_MAJOR || minor != UCP_API_MINOR) return NULL;
  uct_component_h *components;
  unsigned count;
  if (uct_query_components(&components, &count) == UCS_OK) uct_release_component_list(components); /* loads them, and they bring their settings */
  char *text = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&text, &length);
  if (!out) abort();
  const ucs_config_global_list_entry_t *entry;
  ucs_list_for_each(entry, &ucs_config_global_list, list) {
    const int is_read_at_load = strstr(entry->name, "read-only") || strcmp(entry->name, "UCM") == 0;
    const int whose = is_read_at_load ? READ_AT_LOAD : entry->prefix ? OF_TRANSPORTS : OF_CONTEXTS;
    if (entry->table && whose == int_at(&c, 0)) print_names(out, entry->table, entry->prefix, 1);
  }
  fclose(out);
  napi_value names;
  napi_create_string_utf8(env, text, length, &names);
  free(text);
  return names;
}

/* contextOpen([name, value, ...]) -> context, or a status; a value that UCX does not take is -100 - its index */
static napi_value context_open(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  ucp_config_t *config;
  ucs_status_t status = ucp_config_read(NULL, NULL, &config);
  if (status != UCS_OK) return number(env, status);
  uint32_t count = 0;
  napi_get_array_length(env, c.v[0], &count);
  for (uint32_t i = 0; i + 1 < count; i += 2) {
    char texts[2][1024];
    for (uint32_t t = 0; t < 2; t++) {
      napi_value text;
      size_t length;
      napi_get_element(env, c.v[0], i + t, &text);
      napi_get_value_string_utf8(env, text, texts[t], sizeof texts[t], &length);
    }
    if (ucp_config_modify(config, texts[0], texts[1]) != UCS_OK) {
      ucp_config_release(config);
      return number(env, -100.0 - (double)(i / 2));
    }
  }
  ucp_params_t p = {.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME,
                    .features = UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_AMO64 | UCP_FEATURE_WAKEUP,
                    .name = "verbena"};
  ucp_context_h context;
  status = ucp_init(&p, config, &context);
  ucp_config_release(config);
  return status == UCS_OK ? pointer(env, context) : number(env, status);
}

static napi_value context_close(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  ucp_cleanup(pointer_at(&c, 0));
  return NULL;
}

/* memoryMap(context, address or 0 to allocate, length) -> memory handle, or a status */
static napi_value memory_map(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  ucp_mem_map_params_t p = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH, .length = (size_t)number_at(&c, 2)};
  if (number_at(&c, 1) != 0) {
    p.field_mask |= UCP_MEM_MAP_PARAM_FIELD_ADDRESS;
    p.address = pointer_at(&c, 1);
  } else {
    p.field_mask |= UCP_MEM_MAP_PARAM_FIELD_FLAGS;
    p.flags = UCP_MEM_MAP_ALLOCATE;
  }
  ucp_mem_h memory;
  const ucs_status_t status = ucp_mem_map(pointer_at(&c, 0), &p, &memory);
  return status == UCS_OK ? pointer(env, memory) : number(env, status);
}

static void not_freed(napi_env env, void *data, void *hint) {
  (void)env;
  (void)data;
  (void)hint;
}

/* memoryBuffer(memory handle, length) -> ArrayBuffer over memory that UCX allocated */
static napi_value memory_buffer(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  ucp_mem_attr_t attributes = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH};
  napi_value out = NULL;
  if (ucp_mem_query(pointer_at(&c, 0), &attributes) != UCS_OK) return NULL;
  memset(attributes.address, 0, (size_t)number_at(&c, 1));
  napi_create_external_arraybuffer(env, attributes.address, (size_t)number_at(&c, 1), not_freed, NULL, &out);
  return out;
}

/* memoryUnmap(context, memory handle, the ArrayBuffer over memory that UCX allocated or undefined): it ends with the memory */
static napi_value memory_unmap(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  napi_detach_arraybuffer(env, c.v[2]);
  return number(env, ucp_mem_unmap(pointer_at(&c, 0), pointer_at(&c, 1)));
}

/* memoryPack(context, memory handle) -> bytes of the key */
static napi_value memory_pack(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  void *key;
  size_t length;
  if (ucp_rkey_pack(pointer_at(&c, 0), pointer_at(&c, 1), &key, &length) != UCS_OK) return NULL;
  napi_value out = copy_of(env, key, length);
  ucp_rkey_buffer_release(key);
  return out;
}

static napi_value status_words(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  napi_value out;
  napi_create_string_utf8(env, ucs_status_string((ucs_status_t)number_at(&c, 0)), NAPI_AUTO_LENGTH, &out);
  return out;
}

static napi_value version(napi_env env, napi_callback_info info) {
  (void)info;
  napi_value out;
  napi_create_string_utf8(env, ucp_get_version_string(), NAPI_AUTO_LENGTH, &out);
  return out;
}

/* ---- worker ---- */

static void door_close(void *data) {
  door *d = data;
  if (!d->engine) return;
  napi_delete_reference(d->lookout.env, d->rings);
  lookout_close(&d->lookout, free);
  engine_close(d->engine);
  d->engine = NULL;
}

static void rang(uv_handle_t *handle, int status, int events) {
  (void)status;
  (void)events;
  lookout *l = uv_handle_get_data(handle);
  uv_poll_stop(handle);
  ((door *)l->object)->is_polling = 0;
  lookout_tell(l, NULL, 0);
}

/*
 * For the worker whose handle JavaScript has put into `current`: with a function for each worker the call would have several targets, and V8 takes twice as
 * long for those.
 */
static napi_value run(napi_env env, napi_callback_info info) {
  (void)info;
  double *current = NULL;
  napi_get_instance_data(env, (void **)&current);
  door *d = (door *)(uintptr_t)*current;
  if (d->engine) engine_run(d->engine);
  return NULL;
}

/* workerOpen(context, rings, command bytes, event bytes, wake) -> { handle, address, headerLimit }, or a status */
static napi_value worker_open(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  void *rings;
  size_t length;
  engine *e;
  napi_get_arraybuffer_info(env, c.v[1], &rings, &length);
  ucs_status_t status = engine_open(pointer_at(&c, 0), rings, (size_t)number_at(&c, 2), (size_t)number_at(&c, 3), &e);
  if (status != UCS_OK) return number(env, status);
  ucp_worker_attr_t attributes = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};
  if ((status = ucp_worker_query(engine_worker(e), &attributes)) != UCS_OK) {
    engine_close(e);
    return number(env, status);
  }
  door *d = calloc(1, sizeof *d);
  if (!d) abort();
  d->engine = e;
  lookout_open(&d->lookout, env, engine_descriptor(e), c.v[4], d, door_close);
  napi_create_reference(env, c.v[1], 1, &d->rings);
  napi_value out;
  napi_create_object(env, &out);
  napi_set_named_property(env, out, "handle", pointer(env, d));
  napi_set_named_property(env, out, "address", copy_of(env, attributes.address, attributes.address_length));
  napi_set_named_property(env, out, "headerLimit", number(env, (double)engine_header_limit(e)));
  ucp_worker_release_address(engine_worker(e), attributes.address);
  return out;
}

static napi_value worker_close(napi_env env, napi_callback_info info) {
  (void)env;
  call c = arguments(env, info);
  door_close(pointer_at(&c, 0));
  return NULL;
}

/* workerSleep(worker) -> 1: `wake` will be called; 0: there is something to do now */
static napi_value worker_sleep(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  door *d = pointer_at(&c, 0);
  if (!engine_arm(d->engine)) return number(env, 0);
  if (!d->is_polling) {
    d->is_polling = 1;
    uv_poll_start(d->lookout.poll, VERBENA_UV_READABLE, rang);
  }
  return number(env, 1);
}

/* workerRouse(worker): it sleeps no more, and `wake` is not called. */
static napi_value worker_rouse(napi_env env, napi_callback_info info) {
  (void)env;
  call c = arguments(env, info);
  door *d = pointer_at(&c, 0);
  if (d->is_polling) uv_poll_stop(d->lookout.poll);
  d->is_polling = 0;
  return NULL;
}

/* workerHold(worker, on): whether a sleeping worker keeps the process alive */
static napi_value worker_hold(napi_env env, napi_callback_info info) {
  (void)env;
  call c = arguments(env, info);
  door *d = pointer_at(&c, 0);
  lookout_hold(&d->lookout, int_at(&c, 1));
  return NULL;
}

/* connect(worker, address bytes, peer errors) -> endpoint, or a status */
static napi_value connect_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  door *d = pointer_at(&c, 0);
  size_t length;
  ucs_status_t status;
  const int endpoint = engine_connect(d->engine, bytes_at(&c, 1, &length), (int)number_at(&c, 2), &status);
  return number(env, endpoint < 0 ? status : endpoint);
}

/* disconnect(worker, endpoint, force) */
static napi_value disconnect_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  door *d = pointer_at(&c, 0);
  return number(env, (double)engine_disconnect(d->engine, (int)number_at(&c, 1), (int)number_at(&c, 2)));
}

/* keyUnpack(worker, endpoint, bytes) -> key, or a status */
static napi_value key_unpack(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  door *d = pointer_at(&c, 0);
  size_t length;
  ucp_rkey_h key;
  ucp_ep_h endpoint = engine_endpoint(d->engine, (int)number_at(&c, 1));
  if (!endpoint) return number(env, UCS_ERR_NOT_CONNECTED);
  const ucs_status_t status = ucp_ep_rkey_unpack(endpoint, bytes_at(&c, 2, &length), &key);
  return status == UCS_OK ? pointer(env, key) : number(env, status);
}

static napi_value key_release(napi_env env, napi_callback_info info) {
  (void)env;
  call c = arguments(env, info);
  ucp_rkey_destroy(pointer_at(&c, 0));
  return NULL;
}

/* describe(worker, endpoint) -> what UCX says of its lanes and thresholds */
static napi_value describe(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  door *d = pointer_at(&c, 0);
  ucp_ep_h endpoint = engine_endpoint(d->engine, (int)number_at(&c, 1));
  char *text = NULL;
  size_t length = 0;
  FILE *stream = open_memstream(&text, &length);
  if (!stream) abort();
  if (endpoint) ucp_ep_print_info(endpoint, stream);
  fclose(stream);
  napi_value out;
  napi_create_string_utf8(env, text, length, &out);
  free(text);
  return out;
}

static napi_value init(napi_env env, napi_value exports) {
  static const door_function functions[] = {
      {"settingNames", setting_names},
      {"contextOpen", context_open},
      {"contextClose", context_close},
      {"memoryMap", memory_map},
      {"memoryBuffer", memory_buffer},
      {"memoryUnmap", memory_unmap},
      {"memoryPack", memory_pack},
      {"statusWords", status_words},
      {"version", version},
      {"run", run},
      {"workerOpen", worker_open},
      {"workerClose", worker_close},
      {"workerSleep", worker_sleep},
      {"workerRouse", worker_rouse},
      {"workerHold", worker_hold},
      {"connect", connect_js},
      {"disconnect", disconnect_js},
      {"keyUnpack", key_unpack},
      {"keyRelease", key_release},
      {"describe", describe},
  };
  door_export(env, exports, functions, sizeof functions / sizeof *functions);
  napi_value current;
  napi_ref kept;
  void *data;
  napi_create_arraybuffer(env, sizeof(double), &data, &current);
  napi_create_reference(env, current, 1, &kept);
  napi_set_instance_data(env, data, NULL, NULL);
  napi_set_named_property(env, exports, "current", current);
  return exports;
}

NAPI_MODULE(verbena_ucx, init)
