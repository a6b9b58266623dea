/* Datagrams of the RoCE engine, and the liveness of ranks. */
#include "addon.h"
#include "datagram.h"
#include "fast-path.h"
#include "liveness.h"

HOT(hot_fast_receive) {
  COMMAND;
  command[4] = fast_receive((fast_path *)(uintptr_t)command[0], (int)command[1]);
  return NULL;
}

HOT(hot_fast_continue) {
  COMMAND;
  command[4] = fast_continue((fast_path *)(uintptr_t)command[0], (int)command[1]);
  return NULL;
}

HOT(hot_fast_send) {
  COMMAND;
  int count = (int)command[3];
  fast_path *p = (fast_path *)(uintptr_t)command[0];
  int sent = fast_send(p, (fast_qp *)(uintptr_t)command[1], (int)command[2], &count);
  if (command[5] != 0 && sent >= 0) {
    fast_leave(p, count);
    count = 0;
  }
  command[4] = sent;
  command[5] = count;
  return NULL;
}

HOT(hot_fast_leave) {
  COMMAND;
  fast_leave((fast_path *)(uintptr_t)command[0], (int)command[1]);
  return NULL;
}

HOT(hot_datagram_wait) {
  COMMAND;
  command[4] = datagram_wait((datagram *)(uintptr_t)command[0], command[1]);
  return NULL;
}

HOT(hot_datagram_watch) {
  COMMAND;
  command[4] = datagram_watch((datagram *)(uintptr_t)command[0], (const int32_t *)(uintptr_t)command[1], command[2], command[3]);
  return NULL;
}

HOT(hot_datagram_wake) {
  COMMAND;
  datagram_wake((datagram *)(uintptr_t)command[0]);
  return NULL;
}

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

void network_door(napi_env env, napi_value exports) {
  static const door_function functions[] = {
      {"fastReceive", hot_fast_receive},
      {"fastContinue", hot_fast_continue},
      {"fastSend", hot_fast_send},
      {"fastLeave", hot_fast_leave},
      {"datagramWait", hot_datagram_wait},
      {"datagramWatch", hot_datagram_watch},
      {"datagramWake", hot_datagram_wake},
      {"datagramOpen", datagram_open_js},
      {"datagramPort", datagram_port_js},
      {"datagramBuffer", datagram_buffer_js},
      {"datagramJoin", datagram_join_js},
      {"datagramLeave", datagram_leave_js},
      {"livenessStart", liveness_start_js},
      {"livenessWatch", liveness_watch_js},
      {"livenessLeave", liveness_leave_js},
      {"guardStart", guard_start_js},
  };
  door_export(env, exports, functions, sizeof functions / sizeof *functions);
}
