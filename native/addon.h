/*
 * The doorway: what JavaScript sees of the C files of this folder. src/native/addon.ts types it.
 *
 *   addon.c              life of an environment        addon-memory.c      mapped memory, atomics, copies
 *   addon-threads.c      bells and threads of C        addon-network.c     sockets, liveness of ranks
 *   addon-collective.c   collectives, kernels          addon-process.c     processes and their threads
 *   addon-dataset.c      dataset kernels
 *
 * Hot functions take no arguments: they read a block of numbers that JavaScript shares (24 to 30 ns a call instead of 60 and more).
 * Addresses travel as doubles: user addresses are below 2^53.
 *
 *   command[0..3] arguments      command[4] result (errno or a flag)      command[5..7] 64-bit operands and the old value
 *
 * Every thread and registration is listed per environment, so that the end of a worker stops it.
 */
#ifndef VERBENA_ADDON_H
#define VERBENA_ADDON_H

#include "door.h"

typedef struct resource resource;

typedef struct state {
  double command[64];
  resource *resources;
} state;

static inline state *state_of(napi_env env) {
  void *data = NULL;
  napi_get_instance_data(env, &data);
  return data;
}

/* Has `stop` called on a pointer when JavaScript stops it or the environment ends; the youngest first. */
void adopt(napi_env env, void *p, void (*stop)(void *));
/* The same for what the others stand on: it goes last. */
void adopt_ground(napi_env env, void *p, void (*stop)(void *));

#define HOT(name) static napi_value name(napi_env env, napi_callback_info info)
#define COMMAND                              \
  (void)info;                                \
  double *command = state_of(env)->command; \
  uint64_t *wide = (uint64_t *)command;      \
  (void)wide

/* Each puts its functions into the exports. */
void memory_door(napi_env env, napi_value exports);
void thread_door(napi_env env, napi_value exports);
void network_door(napi_env env, napi_value exports);
void collective_door(napi_env env, napi_value exports);
void process_door(napi_env env, napi_value exports);
void dataset_door(napi_env env, napi_value exports);

#endif
