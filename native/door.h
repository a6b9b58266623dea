/*
 * What the doorways between JavaScript and C share: arguments in, results out. Addresses travel as doubles: user addresses are below 2^53.
 */
#ifndef VERBENA_DOOR_H
#define VERBENA_DOOR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define NAPI_VERSION 8
#include <node_api.h>

#define MAX_ARGUMENTS 14

typedef struct call {
  napi_env env;
  napi_value v[MAX_ARGUMENTS];
} call;

static inline call arguments(napi_env env, napi_callback_info info) {
  call c = {.env = env};
  size_t n = MAX_ARGUMENTS;
  napi_get_cb_info(env, info, &n, c.v, NULL, NULL);
  return c;
}

static inline double number_at(call *c, int i) {
  double value = 0;
  napi_get_value_double(c->env, c->v[i], &value);
  return value;
}

static inline int int_at(call *c, int i) { return (int)number_at(c, i); }
static inline void *pointer_at(call *c, int i) { return (void *)(uintptr_t)number_at(c, i); }

static inline void text_at(call *c, int i, char *out, size_t size) {
  size_t length;
  out[0] = 0;
  napi_get_value_string_utf8(c->env, c->v[i], out, size, &length);
}

static inline void *bytes_at(call *c, int i, size_t *length) {
  void *data = NULL;
  size_t elements = 0;
  napi_typedarray_type type;
  *length = 0;
  if (napi_get_typedarray_info(c->env, c->v[i], &type, &elements, &data, NULL, NULL) != napi_ok) return NULL;
  *length = elements;
  return data;
}

static inline napi_value number(napi_env env, double value) {
  napi_value out;
  napi_create_double(env, value, &out);
  return out;
}

static inline napi_value pointer(napi_env env, const void *p) { return number(env, (double)(uintptr_t)p); }

/*
 * Two results; NULL in an environment that is being terminated: arrays cannot be filled there, yet JavaScript still runs up to its next call, and
 * would bring holes back in the place of handles.
 */
static inline napi_value pair(napi_env env, napi_value first, napi_value second) {
  napi_value out;
  napi_create_array_with_length(env, 2, &out);
  if (napi_set_element(env, out, 0, first) != napi_ok || napi_set_element(env, out, 1, second) != napi_ok) return NULL;
  return out;
}

/* A Uint8Array with these bytes; NULL in an environment that is being terminated. */
static inline napi_value copy_of(napi_env env, const void *from, size_t length) {
  napi_value buffer, out = NULL;
  void *to;
  if (napi_create_arraybuffer(env, length, &to, &buffer) != napi_ok) return NULL;
  if (length > 0) memcpy(to, from, length);
  napi_create_typedarray(env, napi_uint8_array, length, buffer, 0, &out);
  return out;
}

/* A function of C under the name that JavaScript calls. */
typedef struct door_function {
  const char *name;
  napi_callback function;
} door_function;

static inline void door_export(napi_env env, napi_value exports, const door_function *functions, size_t count) {
  for (size_t i = 0; i < count; i++) {
    napi_value function;
    napi_create_function(env, functions[i].name, NAPI_AUTO_LENGTH, functions[i].function, NULL, &function);
    napi_set_named_property(env, exports, functions[i].name, function);
  }
}

#endif
