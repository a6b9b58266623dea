/*
 * The half of the stand-in that is mlx5dv: DC queue pairs by the rules of the kernel's mlx5 driver. The masks are exact: a DCI takes PKEY_INDEX and PORT to
 * INIT, PATH_MTU (and AV) to RTR, and what RC takes to RTS; a DCT takes ACCESS_FLAGS too, then PATH_MTU, AV and MIN_RNR_TIMER, and only then has a number.
 */
#include "stub.h"

#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <stdlib.h>

#define FIRST_TARGET 500

typedef struct {
  struct ibv_qp_ex ex; /* its first part is the ibv_qp */
  struct mlx5dv_qp_ex dv;
  int is_target;
  const char *operation;
  uint32_t target;
  uint64_t key;
  size_t elements;
} dynamic;

static int is_between(int mask, int required, int optional) { return (mask & required) == required && (mask & ~(required | optional)) == 0; }

int modify_dynamic(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask) {
  static uint32_t numbers = FIRST_TARGET;
  dynamic *d = (dynamic *)qp;
  const int from = qp->state, to = (int)attr->qp_state, base = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  int fits = 0;
  if (d->is_target) {
    if (from == IBV_QPS_RESET && to == IBV_QPS_INIT) fits = is_between(mask, base | IBV_QP_ACCESS_FLAGS, 0);
    if (from == IBV_QPS_INIT && to == IBV_QPS_RTR) fits = is_between(mask, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER | IBV_QP_AV | IBV_QP_PATH_MTU, 0);
    if (fits && to == IBV_QPS_RTR) qp->qp_num = ++numbers;
  } else {
    const int sender = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_SQ_PSN;
    if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) fits = is_between(mask, IBV_QP_STATE, 0);
    if (from == IBV_QPS_RESET && to == IBV_QPS_INIT) fits = is_between(mask, base, 0);
    if (from == IBV_QPS_INIT && to == IBV_QPS_RTR) fits = is_between(mask, IBV_QP_STATE | IBV_QP_PATH_MTU, IBV_QP_PKEY_INDEX | IBV_QP_AV);
    if (from == IBV_QPS_RTR && to == IBV_QPS_RTS) fits = is_between(mask, IBV_QP_STATE | sender, IBV_QP_MIN_RNR_TIMER);
  }
  note("%s %d>%d %s", d->is_target ? "dct" : "dci", from, to, fits ? "taken" : "refused");
  return fits ? 0 : EINVAL;
}

/* ---- posting by the extended interface ---- */

static void start(struct ibv_qp_ex *x) { ((dynamic *)x)->operation = "none"; }
static void op_send(struct ibv_qp_ex *x) { ((dynamic *)x)->operation = "send"; }
static void op_send_imm(struct ibv_qp_ex *x, __be32 imm) {
  (void)imm;
  ((dynamic *)x)->operation = "send-imm";
}
static void op_write(struct ibv_qp_ex *x, uint32_t key, uint64_t address) {
  (void)key, (void)address;
  ((dynamic *)x)->operation = "write";
}
static void op_add(struct ibv_qp_ex *x, uint32_t key, uint64_t address, uint64_t add) {
  (void)key, (void)address;
  ((dynamic *)x)->operation = add == 5 ? "add-5" : "add";
}
static void set_address(struct mlx5dv_qp_ex *dv, struct ibv_ah *ah, uint32_t target, uint64_t key) {
  dynamic *d = (dynamic *)((char *)dv - offsetof(dynamic, dv));
  d->target = ah ? target : 0;
  d->key = key;
}
static void set_elements(struct ibv_qp_ex *x, size_t count, const struct ibv_sge *list) {
  (void)list;
  ((dynamic *)x)->elements = count;
}
static void set_inline(struct ibv_qp_ex *x, size_t count, const struct ibv_data_buf *list) {
  (void)list;
  ((dynamic *)x)->elements = 100 + count;
}
static int finish(struct ibv_qp_ex *x) {
  dynamic *d = (dynamic *)x;
  note("dc %s target=%u key=%llu elements=%zu", d->operation, d->target, (unsigned long long)d->key, d->elements);
  complete(x->qp_base.qp_num, x->wr_id, x->wr_flags);
  return 0;
}

bool mlx5dv_is_supported(struct ibv_device *device) {
  (void)device;
  return is_rich();
}

struct ibv_qp *mlx5dv_create_qp(struct ibv_context *c, struct ibv_qp_init_attr_ex *init, struct mlx5dv_qp_init_attr *attr) {
  static uint32_t numbers = 300;
  const int is_target = attr->dc_init_attr.dc_type == MLX5DV_DCTYPE_DCT;
  if (is_target && !init->srq) {
    errno = EINVAL;
    return NULL;
  }
  dynamic *d = (dynamic *)make_pair(c, init->pd, init->qp_context, IBV_QPT_DRIVER, is_target ? 0 : ++numbers, sizeof *d);
  d->is_target = is_target;
  d->ex.wr_start = start;
  d->ex.wr_send = op_send;
  d->ex.wr_send_imm = op_send_imm;
  d->ex.wr_rdma_write = op_write;
  d->ex.wr_atomic_fetch_add = op_add;
  d->ex.wr_set_sge_list = set_elements;
  d->ex.wr_set_inline_data_list = set_inline;
  d->ex.wr_complete = finish;
  d->dv.wr_set_dc_addr = set_address;
  if (is_target) note("dct key=%llu", (unsigned long long)attr->dc_init_attr.dct_access_key);
  return &d->ex.qp_base;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp) { return &((dynamic *)qp)->ex; }
struct mlx5dv_qp_ex *mlx5dv_qp_ex_from_ibv_qp_ex(struct ibv_qp_ex *x) { return &((dynamic *)x)->dv; }
