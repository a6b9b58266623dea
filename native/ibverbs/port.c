#define _GNU_SOURCE
#include "port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* ---- objects ---- */

/* Zeroed memory for bookkeeping. A process without a few bytes is at its end. */
static void *zeroed(size_t count, size_t size) {
  void *it = calloc(count, size);
  if (!it) abort();
  return it;
}

uint32_t port_adopt(port *p, int kind, void *it) {
  for (uint32_t i = 1; i < p->object_count; i++) {
    if (p->objects[i].kind == KIND_FREE) {
      p->objects[i] = (object){kind, it};
      return i;
    }
  }
  if (p->object_count == p->object_room) {
    uint32_t room = p->object_room * 2;
    object *more = realloc(p->objects, room * sizeof *more);
    if (!more) abort();
    p->objects = more;
    p->object_room = room;
  }
  p->objects[p->object_count] = (object){kind, it};
  return p->object_count++;
}

void port_forget(port *p, uint32_t index) { p->objects[index] = (object){KIND_FREE, NULL}; }

uint32_t port_generation(port *p) { return ++p->generation & GENERATION_MASK; }

static void ring_make(request_ring *r, uint32_t depth) {
  uint32_t n = 1;
  while (n < depth) n *= 2;
  r->depth = depth;
  r->mask = n - 1;
  r->head = r->tail = 0;
  r->slots = zeroed(n, sizeof *r->slots);
}

/* ---- making and unmaking ---- */

static int nonblocking(int fd) {
  int flags = fcntl(fd, F_GETFL);
  return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? errno : 0;
}

/* Before Linux 5.12 a child process would take registered pages away from the device; later kernels, and those who were too late, change nothing here. */
static void make_fork_safe(void) { ibv_fork_init(); }

int port_open(const char *name, int number, void *block, port **out) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_fork_safe);
  int count = 0;
  struct ibv_device **list = ibv_get_device_list(&count);
  if (!list) return errno ? errno : ENODEV;
  struct ibv_device *found = NULL;
  for (int i = 0; i < count; i++)
    if (strcmp(ibv_get_device_name(list[i]), name) == 0) found = list[i];
  struct ibv_context *context = found ? ibv_open_device(found) : NULL;
  int error = found ? errno : ENODEV;
  ibv_free_device_list(list);
  if (!context) return error ? error : EIO;
  port *p = zeroed(1, sizeof *p);
  p->context = context;
  p->number = number;
  p->head = block;
  p->commands = (uint8_t *)block + COMMAND_OFFSET;
  p->object_room = 64;
  p->object_count = 1; /* 0 is nobody */
  p->objects = zeroed(p->object_room, sizeof *p->objects);
  p->channel = ibv_create_comp_channel(context);
  p->epoll = epoll_create1(EPOLL_CLOEXEC);
  if (!p->channel || p->epoll < 0 || nonblocking(p->channel->fd) || nonblocking(context->async_fd)) {
    error = errno;
    port_close(p);
    return error ? error : EIO;
  }
  struct epoll_event event = {.events = EPOLLIN};
  epoll_ctl(p->epoll, EPOLL_CTL_ADD, p->channel->fd, &event);
  epoll_ctl(p->epoll, EPOLL_CTL_ADD, context->async_fd, &event);
  *out = p;
  return 0;
}

int port_destroy(port *p, uint32_t index) {
  if (index == 0 || index >= p->object_count) return EINVAL;
  object *o = &p->objects[index];
  int error = 0;
  switch (o->kind) {
    case KIND_PD: error = ibv_dealloc_pd(o->it); break;
    case KIND_MR: error = ibv_dereg_mr(o->it); break;
    case KIND_AH: error = ibv_destroy_ah(o->it); break;
    case KIND_CM: cm_destroy(o->it); break;
    case KIND_CQ: {
      completion_queue *cq = o->it;
      error = ibv_destroy_cq(cq->ib);
      if (!error) free(cq); /* the area goes with its ArrayBuffer */
      break;
    }
    case KIND_QP: {
      queue_pair *q = o->it;
      error = ibv_destroy_qp(q->ib);
      if (error) break;
      dc_free(q);
      free(q->send.slots);
      free(q->receive.slots);
      free(q);
      break;
    }
    case KIND_SRQ: {
      shared_queue *s = o->it;
      error = ibv_destroy_srq(s->ib);
      if (error) break;
      free(s->slots);
      free(s->free);
      free(s);
      break;
    }
    default: return EINVAL;
  }
  if (error) return error < 0 ? errno : error;
  port_forget(p, index);
  return 0;
}

void port_close(port *p) {
  static const int ORDER[] = {KIND_CM, KIND_QP, KIND_SRQ, KIND_CQ, KIND_AH, KIND_MR, KIND_PD};
  for (size_t k = 0; k < sizeof ORDER / sizeof *ORDER; k++)
    for (uint32_t i = 1; i < p->object_count; i++)
      if (p->objects[i].kind == ORDER[k]) port_destroy(p, i);
  if (p->epoll >= 0) close(p->epoll);
  if (p->cm) rdma_destroy_event_channel(p->cm);
  if (p->channel) ibv_destroy_comp_channel(p->channel);
  ibv_close_device(p->context);
  free(p->objects);
  free(p);
}

static int adopt_or(port *p, int kind, void *it) {
  if (!it) return errno ? -errno : -ENOMEM;
  return (int)port_adopt(p, kind, it);
}

int port_alloc_pd(port *p) { return adopt_or(p, KIND_PD, ibv_alloc_pd(p->context)); }

int port_register(port *p, uint32_t pd, void *address, size_t length, int access) {
  struct ibv_pd *domain = port_object(p, pd, KIND_PD);
  if (!domain) return -EINVAL;
  return adopt_or(p, KIND_MR, ibv_reg_mr(domain, address, length, access));
}

int port_create_cq(port *p, uint32_t depth, uint32_t records) {
  completion_queue *cq = zeroed(1, sizeof *cq);
  cq->records = records;
  cq->area = zeroed(records, sizeof *cq->area);
  cq->object = port_adopt(p, KIND_CQ, cq);
  errno = 0;
  cq->ib = ibv_create_cq(p->context, (int)depth, (void *)(uintptr_t)cq->object, p->channel, 0);
  if (cq->ib) return (int)cq->object;
  int error = errno ? errno : ENOMEM;
  port_forget(p, cq->object);
  free(cq->area);
  free(cq);
  return -error;
}

int port_create_srq(port *p, uint32_t pd, uint32_t depth, uint32_t sges) {
  struct ibv_pd *domain = port_object(p, pd, KIND_PD);
  if (!domain) return -EINVAL;
  shared_queue *s = zeroed(1, sizeof *s);
  s->depth = s->spare = depth;
  s->slots = zeroed(depth, sizeof *s->slots);
  s->free = zeroed(depth, sizeof *s->free);
  for (uint32_t i = 0; i < depth; i++) s->free[i] = depth - 1 - i;
  s->generation = port_generation(p);
  s->object = port_adopt(p, KIND_SRQ, s);
  struct ibv_srq_init_attr init = {.srq_context = (void *)(uintptr_t)s->object, .attr = {.max_wr = depth, .max_sge = sges}};
  errno = 0;
  s->ib = ibv_create_srq(domain, &init);
  if (s->ib) return (int)s->object;
  int error = errno ? errno : ENOMEM;
  port_forget(p, s->object);
  free(s->slots);
  free(s->free);
  free(s);
  return -error;
}

enum { TYPE_RC, TYPE_UC, TYPE_UD, TYPE_DCI, TYPE_DCT };

int port_create_qp(port *p) {
  const int32_t *a = p->head + ARGUMENT_WORD;
  struct ibv_pd *pd = port_object(p, (uint32_t)a[0], KIND_PD);
  completion_queue *send = port_object(p, (uint32_t)a[1], KIND_CQ), *receive = port_object(p, (uint32_t)a[2], KIND_CQ);
  shared_queue *srq = port_object(p, (uint32_t)a[3], KIND_SRQ);
  if (!pd || !send || !receive || (a[3] && !srq)) return -EINVAL;
  queue_pair *q = zeroed(1, sizeof *q);
  int type = a[4];
  q->type = type == TYPE_UC ? IBV_QPT_UC : type == TYPE_UD ? IBV_QPT_UD : type == TYPE_RC ? IBV_QPT_RC : IBV_QPT_DRIVER;
  q->shares = srq != NULL;
  q->generation = port_generation(p);
  q->object = port_adopt(p, KIND_QP, q);
  ring_make(&q->send, (uint32_t)a[5]);
  ring_make(&q->receive, (uint32_t)a[6]);
  struct ibv_qp_init_attr init = {
      .qp_context = (void *)(uintptr_t)q->object,
      .send_cq = send->ib,
      .recv_cq = receive->ib,
      .srq = srq ? srq->ib : NULL,
      .cap = {(uint32_t)a[5], srq ? 0 : (uint32_t)a[6], (uint32_t)a[7], srq ? 0 : (uint32_t)a[8], (uint32_t)a[9]},
      .qp_type = q->type,
      .sq_sig_all = a[10],
  };
  int error = 0;
  errno = 0;
  if (type == TYPE_DCI) {
    error = dc_create_initiator(p, q, pd, &init);
  } else if (type == TYPE_DCT) {
    error = dc_create_target(p, q, pd, &init, (uint32_t)a[11]);
  } else {
    q->ib = ibv_create_qp(pd, &init);
    if (!q->ib) error = errno ? errno : ENOMEM;
  }
  if (!error) return (int)q->object;
  port_forget(p, q->object);
  free(q->send.slots);
  free(q->receive.slots);
  free(q);
  return -error;
}

static void read_address(const int32_t *a, struct ibv_ah_attr *ah, int number) {
  memset(ah, 0, sizeof *ah);
  ah->is_global = (uint8_t)a[A_GLOBAL];
  ah->dlid = (uint16_t)a[A_LID];
  ah->sl = (uint8_t)a[A_SERVICE_LEVEL];
  ah->static_rate = (uint8_t)a[A_RATE];
  ah->port_num = (uint8_t)number;
  if (!ah->is_global) return;
  memcpy(ah->grh.dgid.raw, a + A_GID, 16);
  ah->grh.sgid_index = (uint8_t)a[A_GID_INDEX];
  ah->grh.hop_limit = (uint8_t)a[A_HOPS];
  ah->grh.traffic_class = (uint8_t)a[A_CLASS];
  ah->grh.flow_label = (uint32_t)a[A_FLOW];
}

int port_create_ah(port *p, uint32_t pd) {
  struct ibv_pd *domain = port_object(p, pd, KIND_PD);
  if (!domain) return -EINVAL;
  struct ibv_ah_attr attr;
  read_address(p->head + ARGUMENT_WORD, &attr, p->number);
  errno = 0;
  return adopt_or(p, KIND_AH, ibv_create_ah(domain, &attr));
}

/* Only what A_MASK names. */
void port_read_attributes(const int32_t *a, struct ibv_qp_attr *attr) {
  int mask = a[A_MASK];
  if (mask & IBV_QP_PKEY_INDEX) attr->pkey_index = (uint16_t)a[A_PKEY];
  if (mask & IBV_QP_PORT) attr->port_num = (uint8_t)a[A_PORT];
  if (mask & IBV_QP_ACCESS_FLAGS) attr->qp_access_flags = (unsigned)a[A_ACCESS];
  if (mask & IBV_QP_QKEY) attr->qkey = (uint32_t)a[A_QKEY];
  if (mask & IBV_QP_PATH_MTU) attr->path_mtu = (enum ibv_mtu)a[A_MTU];
  if (mask & IBV_QP_DEST_QPN) attr->dest_qp_num = (uint32_t)a[A_DESTINATION];
  if (mask & IBV_QP_RQ_PSN) attr->rq_psn = (uint32_t)a[A_RQ_PSN];
  if (mask & IBV_QP_SQ_PSN) attr->sq_psn = (uint32_t)a[A_SQ_PSN];
  if (mask & IBV_QP_MAX_QP_RD_ATOMIC) attr->max_rd_atomic = (uint8_t)a[A_MAX_RD];
  if (mask & IBV_QP_MAX_DEST_RD_ATOMIC) attr->max_dest_rd_atomic = (uint8_t)a[A_MAX_DEST_RD];
  if (mask & IBV_QP_MIN_RNR_TIMER) attr->min_rnr_timer = (uint8_t)a[A_MIN_RNR];
  if (mask & IBV_QP_TIMEOUT) attr->timeout = (uint8_t)a[A_TIMEOUT];
  if (mask & IBV_QP_RETRY_CNT) attr->retry_cnt = (uint8_t)a[A_RETRY];
  if (mask & IBV_QP_RNR_RETRY) attr->rnr_retry = (uint8_t)a[A_RNR_RETRY];
  if (mask & IBV_QP_CUR_STATE) attr->cur_qp_state = (enum ibv_qp_state)a[A_CUR_STATE];
  if (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) attr->en_sqd_async_notify = (uint8_t)a[A_NOTIFY_DRAINED];
}

int port_modify(port *p, uint32_t index) {
  queue_pair *q = port_object(p, index, KIND_QP);
  if (!q) return EINVAL;
  const int32_t *a = p->head + ARGUMENT_WORD;
  struct ibv_qp_attr attr = {.qp_state = (enum ibv_qp_state)a[A_STATE]};
  port_read_attributes(a, &attr);
  if (a[A_MASK] & IBV_QP_AV) read_address(a, &attr.ah_attr, p->number);
  int error = ibv_modify_qp(q->ib, &attr, a[A_MASK] | IBV_QP_STATE);
  if (error) return error < 0 ? errno : error;
  if (a[A_MASK] & IBV_QP_DEST_QPN) q->destination = attr.dest_qp_num;
  if (attr.qp_state == IBV_QPS_RESET) port_forget_requests(p, q);
  return 0;
}

/* The requests of a queue pair are gone, and completions of theirs that are still to come are nobody's. */
void port_forget_requests(port *p, queue_pair *q) {
  q->generation = port_generation(p);
  q->send.head = q->send.tail = q->receive.head = q->receive.tail = 0;
}

int port_query(port *p, uint32_t index) {
  queue_pair *q = port_object(p, index, KIND_QP);
  if (!q) return -EINVAL;
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr init;
  memset(&attr, 0, sizeof attr);
  int error = ibv_query_qp(q->ib, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                             IBV_QP_MIN_RNR_TIMER | IBV_QP_RQ_PSN | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC,
                           &init);
  if (error) return error < 0 ? -errno : -error;
  int32_t *a = p->head + ARGUMENT_WORD;
  a[A_DESTINATION] = (int32_t)attr.dest_qp_num;
  a[A_MTU] = attr.path_mtu;
  a[A_TIMEOUT] = attr.timeout;
  a[A_RETRY] = attr.retry_cnt;
  a[A_RNR_RETRY] = attr.rnr_retry;
  a[A_MIN_RNR] = attr.min_rnr_timer;
  a[A_RQ_PSN] = (int32_t)attr.rq_psn;
  a[A_SQ_PSN] = (int32_t)attr.sq_psn;
  a[A_MAX_RD] = attr.max_rd_atomic;
  a[A_MAX_DEST_RD] = attr.max_dest_rd_atomic;
  a[A_GLOBAL] = attr.ah_attr.is_global;
  a[A_LID] = attr.ah_attr.dlid;
  memcpy(a + A_GID, attr.ah_attr.grh.dgid.raw, 16);
  q->destination = attr.dest_qp_num;
  return attr.qp_state;
}
