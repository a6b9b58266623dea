/* Mapped memory, atomics, copies. */
#include <string.h>
#include <unistd.h>

#include "addon.h"
#include "memory.h"

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

static napi_value barrier_js(napi_env env, napi_callback_info info) {
  (void)info;
  return number(env, memory_barrier());
}

static napi_value register_barrier_js(napi_env env, napi_callback_info info) {
  (void)info;
  return number(env, memory_register_barrier());
}

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

/* reserve(fd, offset, length, NUMA node or -1) -> errno or 0 */
static napi_value memory_reserve_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  int fd = int_at(&c, 0), node = int_at(&c, 3);
  uint64_t offset = (uint64_t)number_at(&c, 1), length = (uint64_t)number_at(&c, 2);
  return number(env, node < 0 ? memory_reserve(fd, offset, length) : memory_reserve_near(fd, offset, length, node));
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

/* Lets go of map's own reference; views keep the memory mapped as long as they live. */
static void unmap(void *data) {
  mapping *m = data;
  if (m->fd >= 0) close(m->fd);
  mapping_release(m);
}

/* map(fd, offset, length, writable, whether stopping it closes fd) -> [mapping, address], or errno */
static napi_value memory_map_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  mapping *m;
  int error = memory_map(int_at(&c, 0), (uint64_t)number_at(&c, 1), (size_t)number_at(&c, 2), int_at(&c, 3), &m);
  if (error) return number(env, error);
  napi_value out = pair(env, pointer(env, m), pointer(env, m->base));
  if (!out) {
    mapping_release(m);
    return NULL;
  }
  if (int_at(&c, 4)) m->fd = int_at(&c, 0);
  adopt_ground(env, m, unmap);
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

static napi_value address_of(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  void *data = NULL;
  size_t length;
  if (napi_get_arraybuffer_info(env, c.v[0], &data, &length) != napi_ok) data = bytes_at(&c, 0, &length);
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

void memory_door(napi_env env, napi_value exports) {
  static const door_function functions[] = {
      {"copy", hot_copy},
      {"writeProcess", hot_write_process},
      {"readProcess", hot_read_process},
      {"fetchAdd", hot_fetch_add},
      {"compareSwap", hot_compare_swap},
      {"barrier", barrier_js},
      {"registerBarrier", register_barrier_js},
      {"create", memory_create_js},
      {"createIn", memory_create_in_js},
      {"reserve", memory_reserve_js},
      {"release", memory_release_js},
      {"map", memory_map_js},
      {"view", memory_view_js},
      {"viewAt", memory_view_at_js},
      {"addressOf", address_of},
      {"isDetached", is_detached},
  };
  door_export(env, exports, functions, sizeof functions / sizeof *functions);
}
