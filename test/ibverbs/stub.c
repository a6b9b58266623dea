/*
 * A stand-in for libibverbs, put before it with LD_PRELOAD: a device that counts requests and completes each at once, and writes what it is asked into
 * the file that VERBENA_STUB_LOG names. With it the cost of the binding can be measured without the cost of a device, and what an InfiniBand port is
 * told can be looked at without one. Its own state is checked, too: an object that is destroyed with an event unacknowledged ends the process, where
 * libibverbs would wait for ever.
 *
 *   VERBENA_STUB_LINK=ethernet   a RoCE port
 *   VERBENA_STUB_MUTE=1          port 1 cannot be asked
 *   VERBENA_STUB_RICH=1          on-demand paging, shared receive queues and multicast; and DC, where libmlx5.so.1 is this file (stub-dc.c)
 *   VERBENA_STUB_EVENTS=fifo     async events come from there: { type, number of the queue pair or port }, 32 bits each; and messages (see MESSAGE)
 *   a peer's GID that ends with :NNee   cannot be reached: errno 0xNN
 *   a WRITE with the key 0xdead         fails with REM_ACCESS_ERR and a code of the maker, and what follows is flushed
 *   CQ_ERR                              is of the newest completion queue
 *   LID_CHANGE, PKEY_CHANGE, GID_CHANGE make it so: LIDs are 10 higher, the keys have moved by one, GIDs end with ::1NN
 */
#include "stub.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define RING 256
#define BAD_KEY 0xdead
#define MESSAGE 1000 /* no event of libibverbs: a message into a shared receive queue for the queue pair */
#undef ibv_query_port
#undef ibv_reg_mr

static struct ibv_device device = {.node_type = IBV_NODE_CA, .transport_type = IBV_TRANSPORT_IB, .name = "stub0", .dev_name = "uverbs0"};
static uint64_t posted, received, polls, polled, doorbells;
static int alive, unacknowledged, has_fallen, has_changed[32]; /* by event */
static struct ibv_cq *armed, *rung, *newest;
static struct ibv_qp *pairs[64], *member; /* of a multicast group */
static FILE *out;

static struct {
  struct ibv_wc wcs[RING];
  uint32_t head, tail;
} queue;
/* Requests of shared queues that are not used. */
static uint64_t shared_ids[RING];
static uint32_t shared_head, shared_tail;

void note(const char *format, ...) {
  if (!out) return;
  va_list arguments;
  va_start(arguments, format);
  vfprintf(out, format, arguments);
  va_end(arguments);
  fputc('\n', out);
  fflush(out);
}

static int is_infiniband(void) {
  const char *link = getenv("VERBENA_STUB_LINK");
  return !link || strcmp(link, "ethernet") != 0;
}

int is_rich(void) { return getenv("VERBENA_STUB_RICH") != NULL; }

/* An object of a size, counted. */
static void *made(size_t size) {
  alive++;
  return calloc(1, size);
}

/* What is destroyed must not wait for an acknowledgement. */
static int unmade(void *it) {
  if (unacknowledged > 0) abort();
  alive--;
  free(it);
  return 0;
}

static void finish(struct ibv_wc wc) {
  queue.wcs[queue.tail++ % RING] = wc;
  if (!armed) return;
  rung = armed;
  armed = NULL;
  note("ring polls=%llu", (unsigned long long)polls);
  eventfd_write(rung->channel->fd, 1);
}

/* One request carried out. */
void complete(uint32_t number, uint64_t id, unsigned flags) {
  posted++;
  if (flags & IBV_SEND_SIGNALED) finish((struct ibv_wc){.wr_id = id, .qp_num = number, .opcode = IBV_WC_SEND});
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad) {
  (void)bad;
  doorbells++;
  for (; wr; wr = wr->next) {
    if (wr->opcode == IBV_WR_RDMA_WRITE && wr->wr.rdma.rkey == BAD_KEY) {
      qp->state = IBV_QPS_ERR;
      finish((struct ibv_wc){.wr_id = wr->wr_id, .qp_num = qp->qp_num, .status = IBV_WC_REM_ACCESS_ERR, .vendor_err = 0x88});
    } else if (qp->state == IBV_QPS_ERR) {
      finish((struct ibv_wc){.wr_id = wr->wr_id, .qp_num = qp->qp_num, .status = IBV_WC_WR_FLUSH_ERR});
    } else {
      complete(qp->qp_num, wr->wr_id, wr->send_flags);
    }
  }
  return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) {
  (void)qp, (void)bad;
  for (; wr; wr = wr->next) received++;
  return 0;
}

static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wcs) {
  (void)cq;
  int n = 0;
  for (; n < most && queue.head != queue.tail; n++) wcs[n] = queue.wcs[queue.head++ % RING];
  polls++;
  polled += (uint64_t)n;
  return n;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) {
  (void)srq;
  for (struct ibv_recv_wr *w = wr; w; w = w->next) shared_ids[shared_tail++ % RING] = w->wr_id;
  return post_recv(NULL, wr, bad);
}

static int req_notify_cq(struct ibv_cq *cq, int solicited) {
  (void)solicited;
  armed = cq;
  note("arm polls=%llu", (unsigned long long)polls);
  return 0;
}

static int query_device_ex(struct ibv_context *c, const struct ibv_query_device_ex_input *input, struct ibv_device_attr_ex *attr, size_t size) {
  (void)input;
  memset(attr, 0, size);
  attr->odp_caps.general_caps = is_rich() ? IBV_ODP_SUPPORT : 0;
  return ibv_query_device(c, &attr->orig_attr);
}

struct ibv_device **ibv_get_device_list(int *count) {
  struct ibv_device **list = calloc(2, sizeof *list);
  list[0] = &device;
  if (count) *count = 1;
  return list;
}

void ibv_free_device_list(struct ibv_device **list) { free(list); }
const char *ibv_get_device_name(struct ibv_device *d) { return d->name; }

struct ibv_context *ibv_open_device(struct ibv_device *d) {
  const char *path = getenv("VERBENA_STUB_LOG"), *events = getenv("VERBENA_STUB_EVENTS");
  if (path && !out) out = fopen(path, "ae");
  struct verbs_context *extended = calloc(1, sizeof *extended);
  extended->sz = sizeof *extended;
  extended->query_device_ex = query_device_ex;
  struct ibv_context *c = &extended->context;
  c->abi_compat = __VERBS_ABI_IS_EXTENDED;
  c->device = d;
  c->async_fd = events ? open(events, O_RDWR | O_CLOEXEC) : eventfd(0, EFD_CLOEXEC);
  c->ops.post_send = post_send;
  c->ops.post_recv = post_recv;
  c->ops.post_srq_recv = post_srq_recv;
  c->ops.poll_cq = poll_cq;
  c->ops.req_notify_cq = req_notify_cq;
  return c;
}

int ibv_fork_init(void) {
  note("fork alive=%d", alive);
  return 0;
}

int ibv_close_device(struct ibv_context *c) {
  close(c->async_fd);
  free(verbs_get_ctx(c));
  note("close alive=%d", alive);
  note("counts posted=%llu received=%llu polled=%llu doorbells=%llu", (unsigned long long)posted, (unsigned long long)received, (unsigned long long)polled,
       (unsigned long long)doorbells);
  return 0;
}

int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *attr) {
  (void)c;
  *attr = (struct ibv_device_attr){.max_qp_wr = 65536, .max_sge = 32, .max_cqe = 1 << 20, .max_mr = 1000, .max_qp_rd_atom = 16, .max_qp_init_rd_atom = 16,
                                   .atomic_cap = IBV_ATOMIC_HCA, .phys_port_cnt = 2};
  if (is_rich()) attr->max_srq = 8, attr->max_srq_wr = 1000, attr->max_srq_sge = 4, attr->max_mcast_grp = 8;
  return 0;
}

int ibv_query_port(struct ibv_context *c, uint8_t number, struct _compat_ibv_port_attr *compat) {
  (void)c;
  if (number == 1 && getenv("VERBENA_STUB_MUTE")) return EIO;
  struct ibv_port_attr attr = {.state = number == 2 ? IBV_PORT_ACTIVE : IBV_PORT_DOWN,
                               .max_mtu = IBV_MTU_4096,
                               .active_mtu = IBV_MTU_2048,
                               .gid_tbl_len = 1,
                               .max_msg_sz = 1u << 30,
                               .pkey_tbl_len = 3,
                               .lid = (uint16_t)((has_changed[IBV_EVENT_LID_CHANGE] ? 50 : 40) + number),
                               .sm_lid = 1,
                               .active_width = 2,
                               .active_speed = 32,
                               .link_layer = is_infiniband() ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET};
  memcpy(compat, &attr, sizeof(struct ibv_port_attr) < 52 ? sizeof(struct ibv_port_attr) : 52);
  return 0;
}

int ibv_query_pkey(struct ibv_context *c, uint8_t number, int index, __be16 *key) {
  (void)c, (void)number;
  static const uint16_t KEYS[] = {0x7fff, 0xffff, 0x8005};
  *key = htons(KEYS[(index + (has_changed[IBV_EVENT_PKEY_CHANGE] ? 2 : 0)) % 3]);
  return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *c, struct ibv_gid_entry *entries, size_t most, uint32_t flags, size_t size) {
  (void)c, (void)most, (void)flags, (void)size;
  for (int i = 0; i < 2; i++) {
    memset(&entries[i], 0, sizeof entries[i]);
    entries[i].port_num = (uint32_t)i + 1;
    entries[i].gid_type = is_infiniband() ? IBV_GID_TYPE_IB : IBV_GID_TYPE_ROCE_V2;
    static const uint8_t PREFIX[8] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0};
    memcpy(entries[i].gid.raw, PREFIX, 8);
    entries[i].gid.raw[14] = (uint8_t)has_changed[IBV_EVENT_GID_CHANGE];
    entries[i].gid.raw[15] = (uint8_t)(i + 1);
  }
  return 2;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *c) {
  struct ibv_pd *pd = made(sizeof *pd);
  pd->context = c;
  return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd) { return unmade(pd); }

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access) {
  static uint32_t keys;
  note("register bytes=%zu access=%#x", length, (unsigned)access);
  if (length > 1u << 28) {
    errno = ENOMEM; /* as a kernel with a limit of locked memory */
    return NULL;
  }
  struct ibv_mr *mr = made(sizeof *mr);
  *mr = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = address, .length = length, .lkey = ++keys, .rkey = 0x80000000u + keys};
  return mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length, uint64_t iova, unsigned int access) {
  (void)iova;
  return ibv_reg_mr(pd, address, length, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr) { return unmade(mr); }

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c) {
  struct ibv_comp_channel *channel = made(sizeof *channel);
  channel->context = c;
  channel->fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel) {
  close(channel->fd);
  return unmade(channel);
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context) {
  eventfd_t one;
  if (eventfd_read(channel->fd, &one)) return -1;
  *cq = rung;
  *cq_context = rung->cq_context;
  unacknowledged++;
  return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned count) {
  (void)cq;
  unacknowledged -= (int)count;
}

int ibv_get_async_event(struct ibv_context *c, struct ibv_async_event *event) {
  uint32_t words[2];
  for (;;) {
    if (read(c->async_fd, words, sizeof words) != sizeof words) return -1;
    if (words[0] != MESSAGE) break;
    finish((struct ibv_wc){.wr_id = shared_ids[shared_head++ % RING], .qp_num = words[1], .opcode = IBV_WC_RECV, .src_qp = 9, .slid = 61});
  }
  event->event_type = (enum ibv_event_type)words[0];
  event->element.port_num = (int)words[1];
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    if (pairs[i] && pairs[i]->qp_num == words[1]) event->element.qp = pairs[i];
  if (words[0] == IBV_EVENT_CQ_ERR) event->element.cq = newest;
  if (words[0] == IBV_EVENT_QP_FATAL) event->element.qp->state = IBV_QPS_ERR;
  if (words[0] == IBV_EVENT_DEVICE_FATAL) has_fallen = 1;
  has_changed[words[0] % 32] = 1;
  unacknowledged++;
  return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event) {
  (void)event;
  unacknowledged--;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *c, int depth, void *cq_context, struct ibv_comp_channel *channel, int vector) {
  (void)depth, (void)vector;
  struct ibv_cq *cq = made(sizeof *cq);
  cq->context = c;
  cq->channel = channel;
  cq->cq_context = cq_context;
  newest = cq;
  return cq;
}

int ibv_destroy_cq(struct ibv_cq *cq) {
  if (armed == cq) armed = NULL;
  return unmade(cq);
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init) {
  struct ibv_srq *srq = made(sizeof *srq);
  srq->context = pd->context;
  srq->pd = pd;
  srq->srq_context = init->srq_context;
  return srq;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask) {
  (void)srq;
  if (mask & IBV_SRQ_LIMIT) note("srq limit=%u", attr->srq_limit);
  return 0;
}

int ibv_destroy_srq(struct ibv_srq *srq) { return unmade(srq); }

/* A queue pair; `size` is that of what it is the first part of. */
struct ibv_qp *make_pair(struct ibv_context *c, struct ibv_pd *pd, void *qp_context, enum ibv_qp_type type, uint32_t number, size_t size) {
  struct ibv_qp *qp = made(size);
  qp->context = c;
  qp->pd = pd;
  qp->qp_context = qp_context;
  qp->qp_type = type;
  qp->qp_num = number;
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    if (pairs[i]) continue;
    pairs[i] = qp;
    break;
  }
  return qp;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init) {
  static uint32_t numbers = 100;
  if (init->cap.max_inline_data > 188) {
    errno = EINVAL;
    return NULL;
  }
  return make_pair(pd->context, pd, init->qp_context, init->qp_type, ++numbers, sizeof(struct ibv_qp));
}

int ibv_destroy_qp(struct ibv_qp *qp) {
  if (qp == member) return EBUSY; /* as the kernel does */
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    if (pairs[i] == qp) pairs[i] = NULL;
  /* As drivers of hardware do it: what nobody has polled is gone. */
  const uint32_t end = queue.tail;
  queue.tail = queue.head;
  for (uint32_t i = queue.head; i != end; i++)
    if (queue.wcs[i % RING].qp_num != qp->qp_num) queue.wcs[queue.tail++ % RING] = queue.wcs[i % RING];
  return unmade(qp);
}

static void note_address(const char *what, const struct ibv_ah_attr *ah) {
  note("%s dlid=%u global=%u gid=%02x%02x..%02x port=%u sl=%u hops=%u", what, ah->dlid, ah->is_global, ah->grh.dgid.raw[0], ah->grh.dgid.raw[1],
       ah->grh.dgid.raw[15], ah->port_num, ah->sl, ah->grh.hop_limit);
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask) {
  if (mask & IBV_QP_AV && attr->ah_attr.grh.dgid.raw[15] == 0xee) return attr->ah_attr.grh.dgid.raw[14];
  if (qp->qp_type == IBV_QPT_DRIVER) {
    int error = modify_dynamic(qp, attr, mask);
    if (error) return error;
  }
  qp->state = attr->qp_state;
  if (mask & IBV_QP_PKEY_INDEX) note("init pkey=%u port=%u", attr->pkey_index, attr->port_num);
  if (mask & IBV_QP_AV) note_address("rtr", &attr->ah_attr);
  return 0;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init) {
  (void)mask, (void)init;
  if (has_fallen) return EIO;
  attr->qp_state = qp->state;
  return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr) {
  note_address("ah", attr);
  struct ibv_ah *ah = made(sizeof *ah);
  ah->context = pd->context;
  ah->pd = pd;
  return ah;
}

int ibv_destroy_ah(struct ibv_ah *ah) { return unmade(ah); }

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid) {
  member = qp;
  note("attach gid=%02x%02x lid=%u", gid->raw[0], gid->raw[1], lid);
  return 0;
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid) {
  if (qp == member) member = NULL;
  note("detach gid=%02x%02x lid=%u", gid->raw[0], gid->raw[1], lid);
  return 0;
}
