/* Collectives, reductions, and the kernels of neural networks. */
#include "addon.h"
#include "collective.h"
#include "kernel-table.h"
#include "reduce.h"

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
  return pair(env, pointer(env, opened), number(env, fd));
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

void collective_door(napi_env env, napi_value exports) {
  static const door_function functions[] = {
      {"reduce", hot_reduce},
      {"kernel", hot_kernel},
      {"collectiveOpen", collective_open_js},
      {"collectiveJoin", collective_join_js},
      {"collectiveShare", collective_share_js},
      {"collectiveRun", hot_collective_run},
      {"collectiveSubmit", collective_submit_js},
      {"collectiveAbort", collective_abort_js},
      {"collectiveCompleted", collective_completed_js},
      {"collectivePeer", collective_peer_js},
  };
  door_export(env, exports, functions, sizeof functions / sizeof *functions);
}
