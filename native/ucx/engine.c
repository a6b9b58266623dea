#include "engine.h"

#include <stdlib.h>
#include <string.h>

#include "relax.h"

#define MESSAGE_ID 1
#define ROUND8(n) (((size_t)(n) + 7) & ~(size_t)7)
#define ROUND4(n) (((size_t)(n) + 3) & ~(size_t)3)

/* An operation that goes on. Small headers and payloads lie in it, because UCX keeps pointers to them until it is over. */
typedef struct operation {
  struct engine *engine;
  struct operation *next;
  void *large;
  char *request;    /* UCX's request, where it is ours: see cleared_request */
  ucp_mem_h memory; /* what it sends from, where it is registered here: see with_memory */
  int number;
  int is_silent; /* nobody waits for its end */
  char small[640];
} operation;

/* An event that did not fit. */
typedef struct waiting_event {
  struct waiting_event *next;
  size_t bytes;
  uint64_t record[];
} waiting_event;

/* UCX keeps a pointer to it for errors, so it lives as long as the engine. */
typedef struct slot {
  struct engine *engine;
  struct slot *next_closed;
  ucp_ep_h endpoint;
  int number, is_closed, peer_errors;
} slot;

struct engine {
  ucp_context_h context;
  ucp_worker_h worker;
  int32_t *head;
  char *commands, *events;
  size_t event_bytes, header_limit, request_bytes;
  waiting_event *first, *last;
  operation **operations;
  int operation_count, operation_capacity;
  operation *free_operations;
  operation *ended; /* those whose end stands in an event that may not have been read: their numbers still mean them */
  slot **slots;
  int slot_count;
  slot *closed;
  int maps_memory;   /* see with_memory */
  int fetches;       /* that go on */
  int32_t announced; /* bytes of events of this call that announce a message */
  int descriptor;
  int is_closing;
};

static void *must(void *memory) {
  if (!memory) abort();
  return memory;
}

static double f64_at(const int32_t *record, int word) {
  double value;
  memcpy(&value, record + word, sizeof value);
  return value;
}

static void *pointer_at(const int32_t *record, int word) { return (void *)(uintptr_t)f64_at(record, word); }

static void put_pointer(int32_t *record, int word, const void *pointer) {
  double value = (double)(uintptr_t)pointer;
  memcpy(record + word, &value, sizeof value);
}

/* ---- events ---- */

/* Room for an event of this many bytes, whose first two words are set. */
static int32_t *event(engine *e, int type, size_t bytes) {
  int32_t *record;
  bytes = ROUND8(bytes);
  if (!e->first && (size_t)e->head[HEAD_EVENTS] + bytes <= e->event_bytes) {
    record = (int32_t *)(e->events + e->head[HEAD_EVENTS]);
    e->head[HEAD_EVENTS] += (int32_t)bytes;
  } else {
    waiting_event *waiting = must(malloc(sizeof *waiting + bytes));
    waiting->next = NULL;
    waiting->bytes = bytes;
    if (e->last) e->last->next = waiting;
    else e->first = waiting;
    e->last = waiting;
    record = (int32_t *)waiting->record;
  }
  record[0] = type;
  record[1] = (int32_t)bytes;
  return record;
}

static void hand_over_waiting(engine *e) {
  while (e->first && (size_t)e->head[HEAD_EVENTS] + e->first->bytes <= e->event_bytes) {
    waiting_event *waiting = e->first;
    memcpy(e->events + e->head[HEAD_EVENTS], waiting->record, waiting->bytes);
    e->head[HEAD_EVENTS] += (int32_t)waiting->bytes;
    e->first = waiting->next;
    if (!e->first) e->last = NULL;
    free(waiting);
  }
}

/* ---- operations ---- */

static operation *operation_take(engine *e) {
  operation *o = e->free_operations;
  if (o) {
    e->free_operations = o->next;
  } else {
    if (e->operation_count == e->operation_capacity) {
      e->operation_capacity = e->operation_capacity ? 2 * e->operation_capacity : 64;
      e->operations = must(realloc(e->operations, (size_t)e->operation_capacity * sizeof *e->operations));
    }
    o = must(calloc(1, sizeof *o));
    o->engine = e;
    e->operations[e->operation_count++] = o;
    o->number = e->operation_count;
  }
  e->head[HEAD_LIVE]++;
  o->is_silent = 0;
  return o;
}

static void operation_give(operation *o, operation **list) {
  if (o->large) {
    free(o->large);
    o->large = NULL;
  }
  if (o->memory) {
    ucp_mem_unmap(o->engine->context, o->memory);
    o->memory = NULL;
  }
  o->engine->head[HEAD_LIVE]--;
  o->next = *list;
  *list = o;
}

/* Every event was read: the numbers of what ended may be given anew. */
static void operations_renew(engine *e) {
  while (e->ended) {
    operation *o = e->ended;
    e->ended = o->next;
    o->next = e->free_operations;
    e->free_operations = o;
  }
}

static void operation_over(operation *o, void *request, ucs_status_t status) {
  engine *e = o->engine;
  const int is_told = !o->is_silent && !e->is_closing;
  if (is_told) {
    int32_t *record = event(e, EVENT_DONE, 24);
    record[2] = o->number;
    record[3] = status;
    memcpy(record + 4, o->small + 8, 8);
  }
  operation_give(o, is_told ? &e->ended : &e->free_operations);
  if (!o->request || request != o->request + e->request_bytes) ucp_request_free(request);
}

static void sent(void *request, ucs_status_t status, void *data) { operation_over(data, request, status); }

static void received(void *request, ucs_status_t status, size_t length, void *data) {
  (void)length;
  ((operation *)data)->engine->fetches--;
  operation_over(data, request, status);
}

/* In place, and only what the mask names: clearing and copying the structure took longer than the rest of a send. */
static void parameters(ucp_request_param_t *p, operation *o) {
  p->op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  p->cb.send = sent;
  p->user_data = o;
}

/*
 * An atomic that a transport without them emulates does not set all of its request, and when its peer is lost UCX up to 1.15 gives back the registrations
 * that it believes to find there: what an earlier request left. So atomics bring memory of their own, cleared.
 */
static void *cleared_request(operation *o) {
  const size_t bytes = o->engine->request_bytes;
  if (o->request) memset(o->request, 0, bytes);
  else o->request = must(calloc(1, bytes));
  return o->request + bytes;
}

/*
 * UCX 1.16 to 1.20 gives the memory of a send that a lost peer may still be reading back by way of its cache of registrations, also where it has none, as here: the
 * process ends there. Memory that the caller registered is left to the caller.
 */
static void with_memory(operation *o, void *address, size_t length, ucp_request_param_t *p) {
  const ucp_mem_map_params_t map = {
      .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH, .address = address, .length = length};
  if (ucp_mem_map(o->engine->context, &map, &o->memory) != UCS_OK) {
    o->memory = NULL;
    return;
  }
  p->op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
  p->memh = o->memory;
}

/* The result of a command, from what UCX returned. */
static int64_t outcome(operation *o, ucs_status_ptr_t answer) {
  if (UCS_PTR_IS_PTR(answer)) return o->number;
  operation_give(o, &o->engine->free_operations);
  return UCS_PTR_STATUS(answer);
}

/* ---- what arrives ---- */

static ucs_status_t on_message(void *arg, const void *header, size_t header_length, void *data, size_t length,
                               const ucp_am_recv_param_t *param) {
  engine *e = arg;
  if (e->is_closing) return UCS_OK;
  const int is_rendezvous = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  const int is_inline = !is_rendezvous && (header_length == 0 || length <= INLINE_BYTES);
  const size_t data_at = 32 + ROUND4(header_length);
  int32_t *record = event(e, EVENT_MESSAGE, data_at + (is_inline ? length : 0));
  double bytes = (double)length;
  record[3] = (int32_t)header_length;
  memcpy(record + 4, &bytes, sizeof bytes);
  if (header_length > 0) memcpy(record + 8, header, header_length);
  if (is_inline) {
    record[2] = DATA_INLINE;
    record[6] = (int32_t)length;
    memcpy((char *)record + data_at, data, length);
    return UCS_OK;
  }
  if (is_rendezvous || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA)) {
    record[2] = is_rendezvous ? DATA_RENDEZVOUS : DATA_DESCRIPTOR;
    put_pointer(record, 6, data);
    if (is_rendezvous) e->announced += record[1];
    return UCS_INPROGRESS;
  }
  void *block = must(malloc(length));
  memcpy(block, data, length);
  record[2] = DATA_BLOCK;
  put_pointer(record, 6, block);
  return UCS_OK;
}

static void on_error(void *arg, ucp_ep_h endpoint, ucs_status_t status) {
  slot *s = arg;
  (void)endpoint;
  if (s->engine->is_closing || s->is_closed) return;
  int32_t *record = event(s->engine, EVENT_FAILED, 16);
  record[2] = s->number;
  record[3] = status;
}

/* ---- commands ---- */

static ucp_ep_h endpoint_of(engine *e, int number) {
  return number >= 0 && number < e->slot_count && e->slots[number] ? e->slots[number]->endpoint : NULL;
}

/* Copies what UCX may look at until the operation is over. */
static char *keep(operation *o, const void *from, size_t length) {
  char *kept = length <= sizeof o->small ? o->small : (o->large = must(malloc(length)));
  memcpy(kept, from, length);
  return kept;
}

/* Small messages go as one run of bytes, header first: UCX's shortest way has room for one. */
static int64_t send_message(engine *e, int32_t *c) {
  ucp_ep_h endpoint = endpoint_of(e, c[2]);
  if (!endpoint) return UCS_ERR_NOT_CONNECTED;
  const size_t header_bytes = (size_t)c[4];
  operation *o = operation_take(e);
  ucp_request_param_t p;
  parameters(&p, o);
  p.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
  p.flags = (uint32_t)c[3];
  if (c[5] >= 0) {
    const size_t all = ROUND4(header_bytes) + (size_t)c[5];
    return outcome(o, ucp_am_send_nbx(endpoint, MESSAGE_ID, NULL, 0, keep(o, c + 10, all), all, &p));
  }
  const char *header = keep(o, c + 10, header_bytes);
  void *data = pointer_at(c, 6);
  const size_t length = (size_t)f64_at(c, 8);
  if (e->maps_memory && e->slots[c[2]]->peer_errors) with_memory(o, data, length, &p);
  return outcome(o, ucp_am_send_nbx(endpoint, MESSAGE_ID, header, header_bytes, data, length, &p));
}

static void release(engine *e, int kind, void *data) {
  if (kind == DATA_BLOCK) free(data);
  else if (kind != DATA_INLINE) ucp_am_data_release(e->worker, data);
}

static int64_t take(engine *e, int32_t *c) {
  void *data = pointer_at(c, 4), *destination = pointer_at(c, 6);
  const size_t length = (size_t)f64_at(c, 8);
  if (c[2] != DATA_RENDEZVOUS) {
    memcpy(destination, data, length);
    release(e, c[2], data);
    return 0;
  }
  operation *o = operation_take(e);
  ucp_request_param_t p;
  parameters(&p, o);
  p.cb.recv_am = received;
  const int64_t result = outcome(o, ucp_am_recv_data_nbx(e->worker, data, destination, length, &p));
  if (result > 0) e->fetches++;
  return result;
}

static int64_t one_sided(engine *e, int32_t *c) {
  ucp_ep_h endpoint = endpoint_of(e, c[2]);
  if (!endpoint) return UCS_ERR_NOT_CONNECTED;
  operation *o = operation_take(e);
  ucp_request_param_t p;
  parameters(&p, o);
  ucp_rkey_h rkey = pointer_at(c, 10);
  const uint64_t remote = (uint64_t)f64_at(c, 8);
  if (c[0] == CMD_ATOMIC) {
    memcpy(o->small, c + 4, 16);
    p.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER | UCP_OP_ATTR_FIELD_REQUEST;
    p.request = cleared_request(o);
    p.datatype = ucp_dt_make_contig(8);
    p.reply_buffer = o->small + 8;
    const int64_t result = outcome(o, ucp_atomic_op_nbx(endpoint, (ucp_atomic_op_t)c[3], o->small, 1, remote, rkey, &p));
    if (result == 0) memcpy(e->head + HEAD_VALUE, o->small + 8, 8);
    return result;
  }
  void *local = c[3] < 0 ? pointer_at(c, 4) : keep(o, c + 12, (size_t)c[3]);
  const size_t length = (size_t)f64_at(c, 6);
  if (c[0] == CMD_PUT) return outcome(o, ucp_put_nbx(endpoint, local, length, remote, rkey, &p));
  return outcome(o, ucp_get_nbx(endpoint, local, length, remote, rkey, &p));
}

static int64_t flush(engine *e, int number) {
  ucp_ep_h endpoint = endpoint_of(e, number);
  if (!endpoint) return UCS_ERR_NOT_CONNECTED;
  operation *o = operation_take(e);
  ucp_request_param_t p;
  parameters(&p, o);
  return outcome(o, ucp_ep_flush_nbx(endpoint, &p));
}

static int64_t execute(engine *e, int32_t *c) {
  switch (c[0]) {
    case CMD_SEND: return send_message(e, c);
    case CMD_TAKE: return take(e, c);
    case CMD_DROP: release(e, c[2], pointer_at(c, 4)); return 0;
    case CMD_PUT:
    case CMD_GET:
    case CMD_ATOMIC: return one_sided(e, c);
    case CMD_FLUSH: return flush(e, c[2]);
    default: return UCS_ERR_INVALID_PARAM;
  }
}

void engine_run(engine *e) {
  int32_t *head = e->head;
  const int32_t used = head[HEAD_COMMANDS];
  for (int32_t at = 0; at < used;) {
    int32_t *c = (int32_t *)(e->commands + at);
    head[HEAD_RESULT] = (int32_t)execute(e, c);
    at += c[1];
  }
  head[HEAD_COMMANDS] = 0;
  head[HEAD_DONE] = 0;
  if (head[HEAD_MODE] == MODE_FLUSH) return;
  if (e->first) hand_over_waiting(e);
  else if (head[HEAD_EVENTS] == 0) operations_renew(e);
  /* What is announced can wait for a fetch that goes on: one way back to JavaScript for both. */
  e->announced = 0;
  for (int look = 0; look < LOOKS && !e->first && head[HEAD_EVENTS] == (e->fetches > 0 ? e->announced : 0); look++) {
    const unsigned done = ucp_worker_progress(e->worker);
    head[HEAD_DONE] += (int32_t)done;
    if (done == 0) relax();
  }
}

int engine_arm(engine *e) { return e->first || e->head[HEAD_EVENTS] > 0 ? 0 : ucp_worker_arm(e->worker) == UCS_OK; }
int engine_descriptor(engine *e) { return e->descriptor; }
ucp_worker_h engine_worker(engine *e) { return e->worker; }
size_t engine_header_limit(engine *e) { return e->header_limit; }

/* ---- endpoints ---- */

static int connect_with(engine *e, ucp_ep_params_t *p, int peer_errors, ucs_status_t *status) {
  int number = 0;
  while (number < e->slot_count && e->slots[number]) number++;
  slot *s = must(calloc(1, sizeof *s));
  if (number == e->slot_count) {
    e->slots = must(realloc(e->slots, (size_t)(e->slot_count + 1) * sizeof *e->slots));
    e->slot_count++;
  }
  e->slots[number] = s;
  s->engine = e;
  s->number = number;
  s->peer_errors = peer_errors;
  p->field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  p->err_mode = peer_errors ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE;
  p->err_handler.cb = on_error;
  p->err_handler.arg = s;
  *status = ucp_ep_create(e->worker, p, &s->endpoint);
  if (*status == UCS_OK) return number;
  e->slots[number] = NULL;
  free(s);
  return -1;
}

int engine_connect(engine *e, const ucp_address_t *address, int peer_errors, ucs_status_t *status) {
  ucp_ep_params_t p = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = address};
  return connect_with(e, &p, peer_errors, status);
}

int64_t engine_disconnect(engine *e, int number, int force) {
  ucp_ep_h endpoint = endpoint_of(e, number);
  if (!endpoint) return 0;
  operation *o = operation_take(e);
  ucp_request_param_t p;
  parameters(&p, o);
  if (force) {
    p.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    p.flags = UCP_EP_CLOSE_FLAG_FORCE;
  }
  o->is_silent = 1;
  slot *s = e->slots[number];
  s->is_closed = 1;
  s->next_closed = e->closed;
  e->closed = s;
  e->slots[number] = NULL;
  return outcome(o, ucp_ep_close_nbx(endpoint, &p));
}

ucp_ep_h engine_endpoint(engine *e, int number) { return endpoint_of(e, number); }

/* ---- life ---- */

ucs_status_t engine_open(ucp_context_h context, void *rings, size_t command_bytes, size_t event_bytes, engine **out) {
  engine *e = must(calloc(1, sizeof *e));
  unsigned major, minor, release;
  ucp_get_version(&major, &minor, &release);
  e->maps_memory = major == 1 && minor >= 16 && minor <= 20;
  e->context = context;
  e->head = rings;
  e->commands = (char *)rings + HEAD_WORDS * 4;
  e->events = e->commands + command_bytes;
  e->event_bytes = event_bytes;
  ucp_context_attr_t sizes = {.field_mask = UCP_ATTR_FIELD_REQUEST_SIZE};
  ucs_status_t status = ucp_context_query(context, &sizes);
  ucp_worker_params_t wp = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE, .thread_mode = UCS_THREAD_MODE_SINGLE};
  if (status == UCS_OK) status = ucp_worker_create(context, &wp, &e->worker);
  if (status != UCS_OK) {
    free(e);
    return status;
  }
  ucp_worker_attr_t attributes = {.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER};
  ucp_am_handler_param_t hp = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                                             UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
                               .id = MESSAGE_ID,
                               .flags = UCP_AM_FLAG_WHOLE_MSG,
                               .cb = on_message,
                               .arg = e};
  if ((status = ucp_worker_query(e->worker, &attributes)) != UCS_OK ||
      (status = ucp_worker_set_am_recv_handler(e->worker, &hp)) != UCS_OK ||
      (status = ucp_worker_get_efd(e->worker, &e->descriptor)) != UCS_OK) {
    ucp_worker_destroy(e->worker);
    free(e);
    return status;
  }
  e->header_limit = attributes.max_am_header;
  e->request_bytes = sizes.request_size;
  *out = e;
  return UCS_OK;
}

/* What arrived and was never looked at. */
static void discard(engine *e, const int32_t *record) {
  if (record[0] == EVENT_MESSAGE) release(e, record[2], pointer_at(record, 6));
}

void engine_close(engine *e) {
  for (int32_t at = 0; at < e->head[HEAD_EVENTS];) {
    int32_t *record = (int32_t *)(e->events + at);
    discard(e, record);
    at += record[1];
  }
  while (e->first) {
    waiting_event *waiting = e->first;
    e->first = waiting->next;
    discard(e, (int32_t *)waiting->record);
    free(waiting);
  }
  e->is_closing = 1;
  ucp_worker_destroy(e->worker);
  for (int i = 0; i < e->slot_count; i++) free(e->slots[i]);
  free(e->slots);
  while (e->closed) {
    slot *next = e->closed->next_closed;
    free(e->closed);
    e->closed = next;
  }
  for (int i = 0; i < e->operation_count; i++) {
    free(e->operations[i]->large);
    free(e->operations[i]->request);
    if (e->operations[i]->memory) ucp_mem_unmap(e->context, e->operations[i]->memory);
    free(e->operations[i]);
  }
  free(e->operations);
  free(e);
}
