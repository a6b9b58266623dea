/*
 * The doorway between JavaScript and an RDMA device. Numbers that are negative are -errno. One epoll descriptor stands for everything that
 * can happen to a device (completion events, async events, connection management); libuv polls it, so no thread waits and nothing spins.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "door.h"
#include "port.h"
#include "uv.h"

#define TEXT 256

/* An open port with what JavaScript gave it. */
typedef struct {
  lookout lookout;
  port *port;
  napi_ref block;
} door;

static uint32_t index_at(call *c, int i) { return (uint32_t)number_at(c, i); }

static port *port_at(call *c) {
  door *d = pointer_at(c, 0);
  return d->port;
}

static napi_value text_of(napi_env env, int error, char *text, size_t length) {
  if (error) return number(env, -error);
  napi_value value;
  napi_create_string_utf8(env, text, length, &value);
  free(text);
  return value;
}

/* devices() -> JSON text of every RDMA device with its ports, or -errno */
static napi_value devices(napi_env env, napi_callback_info info) {
  (void)info;
  char *text;
  size_t length;
  const int error = devices_json(&text, &length);
  return text_of(env, error, text, length);
}

/* portNow(door) -> JSON text of the port, or -errno */
static napi_value port_now(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  char *text;
  size_t length;
  const int error = port_json(port_at(&c), &text, &length);
  return text_of(env, error, text, length);
}

/* ---- what happens ---- */

enum { HAPPENED_COMPLETION, HAPPENED_ASYNC, HAPPENED_CM };

/* No more than this in one go: whoever is told may ask for the next event at once, and the rest of the event loop has its turn, too. */
#define MOST_COMPLETIONS 64

static void drain_completions(door *d) {
  struct ibv_cq *cq;
  void *context;
  for (int n = 0; n < MOST_COMPLETIONS && d->port && ibv_get_cq_event(d->port->channel, &cq, &context) == 0; n++) {
    ibv_ack_cq_events(cq, 1);
    napi_value argv[] = {number(d->lookout.env, HAPPENED_COMPLETION), number(d->lookout.env, (double)(uintptr_t)context)};
    lookout_tell(&d->lookout, argv, 2);
  }
}

static void drain_async(door *d) {
  struct ibv_async_event event;
  while (d->port && ibv_get_async_event(d->port->context, &event) == 0) {
    double object = 0, type = event.event_type;
    switch (event.event_type) {
      case IBV_EVENT_CQ_ERR: object = (double)(uintptr_t)event.element.cq->cq_context; break;
      case IBV_EVENT_QP_FATAL:
      case IBV_EVENT_QP_REQ_ERR:
      case IBV_EVENT_QP_ACCESS_ERR:
      case IBV_EVENT_COMM_EST:
      case IBV_EVENT_SQ_DRAINED:
      case IBV_EVENT_PATH_MIG:
      case IBV_EVENT_PATH_MIG_ERR:
      case IBV_EVENT_QP_LAST_WQE_REACHED: object = (double)(uintptr_t)event.element.qp->qp_context; break;
      case IBV_EVENT_SRQ_ERR:
      case IBV_EVENT_SRQ_LIMIT_REACHED: object = (double)(uintptr_t)event.element.srq->srq_context; break;
      default: object = event.element.port_num;
    }
    ibv_ack_async_event(&event);
    napi_value argv[] = {number(d->lookout.env, HAPPENED_ASYNC), number(d->lookout.env, object), number(d->lookout.env, type)};
    lookout_tell(&d->lookout, argv, 3);
  }
}

/* The callback gets: the connection, the event, its status, private data, the listener of a request, and the port of the device it came in on. */
static void drain_cm(door *d) {
  struct rdma_cm_event *event;
  while (d->port && d->port->cm && rdma_get_cm_event(d->port->cm, &event) == 0) {
    napi_env env = d->lookout.env;
    uint32_t id = (uint32_t)(uintptr_t)event->id->context, listener = 0;
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
      listener = (uint32_t)(uintptr_t)event->listen_id->context;
      id = port_adopt(d->port, KIND_CM, event->id);
      event->id->context = (void *)(uintptr_t)id;
    }
    napi_value argv[] = {
        number(env, HAPPENED_CM),
        number(env, id),
        number(env, event->event),
        number(env, event->status),
        copy_of(env, event->param.conn.private_data, event->param.conn.private_data ? event->param.conn.private_data_len : 0),
        number(env, listener),
    };
    rdma_ack_cm_event(event);
    lookout_tell(&d->lookout, argv, 6);
  }
}

static void drain(door *d) {
  napi_handle_scope scope;
  napi_open_handle_scope(d->lookout.env, &scope);
  drain_async(d);
  drain_cm(d);
  drain_completions(d);
  napi_close_handle_scope(d->lookout.env, scope);
}

static void rang(uv_handle_t *handle, int status, int events) {
  (void)status;
  (void)events;
  drain(((lookout *)uv_handle_get_data(handle))->object);
}

/* progress(door): what has happened, told now */
static napi_value progress(napi_env env, napi_callback_info info) {
  (void)env;
  call c = arguments(env, info);
  door *d = pointer_at(&c, 0);
  if (d->port) drain(d);
  return NULL;
}

/* ---- the port ---- */

static void door_close(void *data) {
  door *d = data;
  if (!d->port) return;
  port *p = d->port;
  d->port = NULL;
  napi_delete_reference(d->lookout.env, d->block);
  lookout_close(&d->lookout, free);
  port_close(p);
}

static napi_value run(napi_env env, napi_callback_info info) {
  door *d;
  napi_get_cb_info(env, info, NULL, NULL, NULL, (void **)&d);
  if (d->port) port_run(d->port);
  return NULL;
}

/* open(device, port number, block, callback) -> { handle, run }, or -errno */
static napi_value open_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  char name[TEXT];
  void *block;
  size_t length;
  port *p;
  text_at(&c, 0, name, sizeof name);
  napi_get_arraybuffer_info(env, c.v[2], &block, &length);
  if (length < COMMAND_OFFSET + COMMAND_BYTES) return number(env, -EINVAL);
  errno = 0;
  int error = port_open(name, (int)number_at(&c, 1), block, &p);
  if (error) return number(env, -error);
  door *d = calloc(1, sizeof *d);
  if (!d) abort();
  d->port = p;
  lookout_open(&d->lookout, env, p->epoll, c.v[3], d, door_close);
  uv_poll_start(d->lookout.poll, VERBENA_UV_READABLE, rang);
  napi_create_reference(env, c.v[2], 1, &d->block);
  napi_value out, function;
  napi_create_object(env, &out);
  napi_create_function(env, "run", NAPI_AUTO_LENGTH, run, d, &function);
  napi_set_named_property(env, out, "run", function);
  napi_set_named_property(env, out, "handle", number(env, (double)(uintptr_t)d));
  return out;
}

static napi_value close_js(napi_env env, napi_callback_info info) {
  (void)env;
  call c = arguments(env, info);
  door_close(pointer_at(&c, 0));
  return NULL;
}

/* hold(door, on): keeps the process alive */
static napi_value hold(napi_env env, napi_callback_info info) {
  (void)env;
  call c = arguments(env, info);
  door *d = pointer_at(&c, 0);
  if (d->port) lookout_hold(&d->lookout, int_at(&c, 1));
  return NULL;
}

static napi_value alloc_pd(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  return number(env, port_alloc_pd(port_at(&c)));
}

/* register(door, pd, address, length, access) -> [object, lkey, rkey], or -errno */
static napi_value register_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  port *p = port_at(&c);
  errno = 0;
  int index = port_register(p, index_at(&c, 1), pointer_at(&c, 2), (size_t)number_at(&c, 3), (int)number_at(&c, 4));
  if (index < 0) return number(env, index);
  struct ibv_mr *mr = port_object(p, (uint32_t)index, KIND_MR);
  napi_value out;
  napi_create_array_with_length(env, 3, &out);
  const double values[] = {index, mr->lkey, mr->rkey};
  for (uint32_t i = 0; i < 3; i++)
    if (napi_set_element(env, out, i, number(env, values[i])) != napi_ok) return NULL; /* as pair */
  return out;
}

static void area_free(napi_env env, void *data, void *hint) {
  (void)env;
  (void)hint;
  free(data);
}

/* createCq(door, depth, records) -> [object, ArrayBuffer of records], or -errno */
static napi_value create_cq(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  port *p = port_at(&c);
  int index = port_create_cq(p, index_at(&c, 1), index_at(&c, 2));
  if (index < 0) return number(env, index);
  completion_queue *cq = port_object(p, (uint32_t)index, KIND_CQ);
  napi_value area;
  if (napi_create_external_arraybuffer(env, cq->area, cq->records * sizeof *cq->area, area_free, NULL, &area) != napi_ok) {
    free(cq->area);
    port_destroy(p, (uint32_t)index);
    return NULL;
  }
  return pair(env, number(env, index), area);
}

static napi_value arm_cq(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  completion_queue *cq = port_object(port_at(&c), index_at(&c, 1), KIND_CQ);
  return number(env, cq ? ibv_req_notify_cq(cq->ib, (int)number_at(&c, 2)) : EINVAL);
}

static napi_value create_srq(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  return number(env, port_create_srq(port_at(&c), index_at(&c, 1), index_at(&c, 2), index_at(&c, 3)));
}

static napi_value limit_srq(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  shared_queue *s = port_object(port_at(&c), index_at(&c, 1), KIND_SRQ);
  if (!s) return number(env, EINVAL);
  struct ibv_srq_attr attr = {.srq_limit = index_at(&c, 2)};
  return number(env, ibv_modify_srq(s->ib, &attr, IBV_SRQ_LIMIT));
}

/* How many requests of a shared queue are posted and not used. */
static napi_value count_srq(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  shared_queue *s = port_object(port_at(&c), index_at(&c, 1), KIND_SRQ);
  return number(env, s ? s->depth - s->spare : 0);
}

/* createQp(door) -> [object, number], or -errno; the arguments are in the block. A DCT gets its number in RTR: see numberOf. */
static napi_value create_qp(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  port *p = port_at(&c);
  int index = port_create_qp(p);
  if (index < 0) return number(env, index);
  queue_pair *q = port_object(p, (uint32_t)index, KIND_QP);
  return pair(env, number(env, index), number(env, q->ib->qp_num));
}

/* numberOf(door, qp) */
static napi_value number_of(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  queue_pair *q = port_object(port_at(&c), index_at(&c, 1), KIND_QP);
  return number(env, q ? q->ib->qp_num : 0);
}

static napi_value modify(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  return number(env, port_modify(port_at(&c), index_at(&c, 1)));
}

static napi_value query(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  return number(env, port_query(port_at(&c), index_at(&c, 1)));
}

static napi_value create_ah(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  return number(env, port_create_ah(port_at(&c), index_at(&c, 1)));
}

/* multicast(door, qp, gid bytes, lid, join) -> errno */
static napi_value multicast(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  queue_pair *q = port_object(port_at(&c), index_at(&c, 1), KIND_QP);
  size_t length;
  void *bytes = bytes_at(&c, 2, &length);
  if (!q || length != 16) return number(env, EINVAL);
  union ibv_gid gid;
  memcpy(gid.raw, bytes, 16);
  errno = 0;
  uint16_t lid = (uint16_t)number_at(&c, 3);
  int error = number_at(&c, 4) > 0 ? ibv_attach_mcast(q->ib, &gid, lid) : ibv_detach_mcast(q->ib, &gid, lid);
  return number(env, error < 0 ? errno : error);
}

static napi_value destroy(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  return number(env, port_destroy(port_at(&c), index_at(&c, 1)));
}

/* ---- connections ---- */

/* cmListen(door, ip, port) -> [listener, port], or -errno */
static napi_value cm_listen_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  char ip[TEXT];
  int bound = 0;
  text_at(&c, 1, ip, sizeof ip);
  int id = cm_listen(port_at(&c), ip, (int)number_at(&c, 2), &bound);
  if (id < 0) return number(env, id);
  return pair(env, number(env, id), number(env, bound));
}

/* cmResolve(door, source ip, ip, port, milliseconds) -> connection, or -errno */
static napi_value cm_resolve_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  char source[TEXT], ip[TEXT];
  text_at(&c, 1, source, sizeof source);
  text_at(&c, 2, ip, sizeof ip);
  return number(env, cm_resolve(port_at(&c), source, ip, (int)number_at(&c, 3), (int)number_at(&c, 4)));
}

static napi_value cm_route_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  return number(env, cm_route(port_at(&c), index_at(&c, 1), (int)number_at(&c, 2)));
}

static napi_value cm_connect_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  size_t length;
  void *data = bytes_at(&c, 2, &length);
  return number(env, cm_connect(port_at(&c), index_at(&c, 1), data, length));
}

static napi_value cm_accept_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  size_t length;
  void *data = bytes_at(&c, 2, &length);
  return number(env, cm_accept(port_at(&c), index_at(&c, 1), data, length));
}

static napi_value cm_reject_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  size_t length;
  void *data = bytes_at(&c, 2, &length);
  return number(env, cm_reject(port_at(&c), index_at(&c, 1), data, length));
}

static napi_value cm_establish_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  return number(env, cm_establish(port_at(&c), index_at(&c, 1)));
}

static napi_value cm_disconnect_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  return number(env, cm_disconnect(port_at(&c), index_at(&c, 1)));
}

/* cmModify(door, connection, qp, state) -> 0 or -errno */
static napi_value cm_modify_js(napi_env env, napi_callback_info info) {
  call c = arguments(env, info);
  return number(env, cm_modify(port_at(&c), index_at(&c, 1), index_at(&c, 2), (int)number_at(&c, 3)));
}

NAPI_MODULE_INIT() {
  static const door_function functions[] = {
      {"devices", devices},
      {"portNow", port_now},
      {"open", open_js},
      {"close", close_js},
      {"hold", hold},
      {"progress", progress},
      {"allocPd", alloc_pd},
      {"register", register_js},
      {"createCq", create_cq},
      {"armCq", arm_cq},
      {"createSrq", create_srq},
      {"limitSrq", limit_srq},
      {"countSrq", count_srq},
      {"createQp", create_qp},
      {"modify", modify},
      {"numberOf", number_of},
      {"query", query},
      {"createAh", create_ah},
      {"multicast", multicast},
      {"destroy", destroy},
      {"cmListen", cm_listen_js},
      {"cmResolve", cm_resolve_js},
      {"cmRoute", cm_route_js},
      {"cmConnect", cm_connect_js},
      {"cmAccept", cm_accept_js},
      {"cmReject", cm_reject_js},
      {"cmEstablish", cm_establish_js},
      {"cmDisconnect", cm_disconnect_js},
      {"cmModify", cm_modify_js},
  };
  door_export(env, exports, functions, sizeof functions / sizeof *functions);
  return exports;
}
