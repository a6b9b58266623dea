/*
 * A stand-in for libibverbs, put before it with LD_PRELOAD: a device that counts requests and completes each at once, and writes what it is asked into
 * the file that VERBENA_STUB_LOG names. With it the cost of the binding can be measured without the cost of a device, and what an InfiniBand port is
 * told can be looked at without one. VERBENA_STUB_LINK=ethernet makes it a RoCE port.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#define RING 65536
#undef ibv_query_port
#undef ibv_reg_mr

static struct ibv_device device = {.node_type = IBV_NODE_CA, .transport_type = IBV_TRANSPORT_IB, .name = "stub0", .dev_name = "uverbs0"};
static struct ibv_context context;
static uint64_t posted, received, polled, doorbells;
static FILE *out;

static struct {
  uint64_t ids[RING];
  uint32_t head, tail, number;
} queue;

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...) {
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

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad) {
  (void)bad;
  doorbells++;
  queue.number = qp->qp_num;
  for (; wr; wr = wr->next) {
    posted++;
    if (wr->send_flags & IBV_SEND_SIGNALED) queue.ids[queue.tail++ % RING] = wr->wr_id;
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
  for (; n < most && queue.head != queue.tail; n++) {
    memset(&wcs[n], 0, sizeof wcs[n]);
    wcs[n].wr_id = queue.ids[queue.head++ % RING];
    wcs[n].qp_num = queue.number;
  }
  polled += (uint64_t)n;
  return n;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited) {
  (void)cq, (void)solicited;
  return 0;
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
  const char *path = getenv("VERBENA_STUB_LOG");
  if (path && !out) out = fopen(path, "a");
  context.device = d;
  if (context.async_fd == 0) context.async_fd = eventfd(0, EFD_NONBLOCK);
  context.ops.post_send = post_send;
  context.ops.post_recv = post_recv;
  context.ops.poll_cq = poll_cq;
  context.ops.req_notify_cq = req_notify_cq;
  return &context;
}

int ibv_close_device(struct ibv_context *c) {
  (void)c;
  note("counts posted=%llu received=%llu polled=%llu doorbells=%llu", (unsigned long long)posted, (unsigned long long)received, (unsigned long long)polled,
       (unsigned long long)doorbells);
  return 0;
}

int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *attr) {
  (void)c;
  *attr = (struct ibv_device_attr){.max_qp_wr = 65536, .max_sge = 32, .max_cqe = 1 << 20, .max_mr = 1000, .max_qp_rd_atom = 16, .max_qp_init_rd_atom = 16,
                                   .atomic_cap = IBV_ATOMIC_HCA, .phys_port_cnt = 2};
  return 0;
}

int ibv_query_port(struct ibv_context *c, uint8_t number, struct _compat_ibv_port_attr *compat) {
  (void)c;
  struct ibv_port_attr attr = {.state = number == 2 ? IBV_PORT_ACTIVE : IBV_PORT_DOWN,
                               .max_mtu = IBV_MTU_4096,
                               .active_mtu = IBV_MTU_2048,
                               .gid_tbl_len = 1,
                               .max_msg_sz = 1u << 30,
                               .pkey_tbl_len = 3,
                               .lid = (uint16_t)(40 + number),
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
  *key = htons(KEYS[index]);
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
    entries[i].gid.raw[15] = (uint8_t)(i + 1);
  }
  return 2;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *c) {
  struct ibv_pd *pd = calloc(1, sizeof *pd);
  pd->context = c;
  return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd) {
  free(pd);
  return 0;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access) {
  (void)access;
  static uint32_t keys;
  if (length > 1u << 28) {
    errno = ENOMEM; /* as a kernel with a limit of locked memory */
    return NULL;
  }
  struct ibv_mr *mr = calloc(1, sizeof *mr);
  *mr = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = address, .length = length, .lkey = ++keys, .rkey = 0x80000000u + keys};
  return mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length, uint64_t iova, unsigned int access) {
  (void)iova;
  return ibv_reg_mr(pd, address, length, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr) {
  free(mr);
  return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c) {
  struct ibv_comp_channel *channel = calloc(1, sizeof *channel);
  channel->context = c;
  channel->fd = eventfd(0, EFD_NONBLOCK);
  return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel) {
  free(channel);
  return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context) {
  (void)channel, (void)cq, (void)cq_context;
  return -1;
}

int ibv_get_async_event(struct ibv_context *c, struct ibv_async_event *event) {
  (void)c, (void)event;
  return -1;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *c, int depth, void *cq_context, struct ibv_comp_channel *channel, int vector) {
  (void)depth, (void)vector;
  struct ibv_cq *cq = calloc(1, sizeof *cq);
  cq->context = c;
  cq->channel = channel;
  cq->cq_context = cq_context;
  return cq;
}

int ibv_destroy_cq(struct ibv_cq *cq) {
  free(cq);
  return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init) {
  static uint32_t numbers = 100;
  if (init->cap.max_inline_data > 188) {
    errno = EINVAL;
    return NULL;
  }
  struct ibv_qp *qp = calloc(1, sizeof *qp);
  qp->context = pd->context;
  qp->pd = pd;
  qp->qp_context = init->qp_context;
  qp->qp_type = init->qp_type;
  qp->qp_num = ++numbers;
  return qp;
}

int ibv_destroy_qp(struct ibv_qp *qp) {
  free(qp);
  return 0;
}

static void note_address(const char *what, const struct ibv_ah_attr *ah) {
  note("%s dlid=%u global=%u gid=%02x%02x..%02x port=%u sl=%u hops=%u", what, ah->dlid, ah->is_global, ah->grh.dgid.raw[0], ah->grh.dgid.raw[1],
       ah->grh.dgid.raw[15], ah->port_num, ah->sl, ah->grh.hop_limit);
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask) {
  qp->state = attr->qp_state;
  if (mask & IBV_QP_PKEY_INDEX) note("init pkey=%u port=%u", attr->pkey_index, attr->port_num);
  if (mask & IBV_QP_AV) note_address("rtr", &attr->ah_attr);
  return 0;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init) {
  (void)mask, (void)init;
  attr->qp_state = qp->state;
  return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr) {
  note_address("ah", attr);
  struct ibv_ah *ah = calloc(1, sizeof *ah);
  ah->context = pd->context;
  ah->pd = pd;
  return ah;
}

int ibv_destroy_ah(struct ibv_ah *ah) {
  free(ah);
  return 0;
}
