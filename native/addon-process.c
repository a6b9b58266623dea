/* Processes, and the thread that calls. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "addon.h"
#include "watch.h"

/* processStat(pid) -> [start time, state letter as a number], or undefined */
static napi_value process_stat_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  uint64_t start_time;
  char letter;
  if (process_stat((pid_t)number_at(&c, 0), &start_time, &letter) != 0) return NULL;
  return pair(env, number(env, (double)start_time), number(env, letter));
}

/* isGone(pid, start time) -> 1 when that process has ended for sure */
static napi_value is_gone(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  return number(env, process_is_gone((pid_t)number_at(&c, 0), (uint64_t)number_at(&c, 1)));
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

/* environmentDefault(name, value): a variable for libraries, where it is not set; a worker's process.env is a copy that they do not see */
static napi_value environment_default(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  char texts[2][256];
  for (int i = 0; i < 2; i++) text_at(&c, i, texts[i], sizeof texts[i]);
  setenv(texts[0], texts[1], 0);
  return NULL;
}

void process_door(napi_env env, napi_value exports) {
  static const door_function functions[] = {
      {"processStat", process_stat_js},
      {"isGone", is_gone},
      {"allowTracing", allow_tracing},
      {"pin", pin_thread},
      {"shortenSlice", shorten_slice},
      {"threadId", thread_id},
      {"peerUid", peer_uid},
      {"environmentDefault", environment_default},
  };
  door_export(env, exports, functions, sizeof functions / sizeof *functions);
}
