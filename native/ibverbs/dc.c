/*
 * Dynamically connected transport through mlx5dv. The provider library is opened at run time, so that machines without it need not have it. A
 * DC request names its target, which only the extended posting interface can say.
 */
#define _GNU_SOURCE
#include "port.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#if __has_include(<infiniband/mlx5dv.h>)
#include <infiniband/mlx5dv.h>

struct dc_initiator {
  struct ibv_qp_ex *extended;
  struct mlx5dv_qp_ex *dv;
};

static struct {
  bool (*is_supported)(struct ibv_device *);
  struct ibv_qp *(*create_qp)(struct ibv_context *, struct ibv_qp_init_attr_ex *, struct mlx5dv_qp_init_attr *);
  struct mlx5dv_qp_ex *(*extend)(struct ibv_qp_ex *);
} mlx5;

static void load(void) {
  void *library = dlopen("libmlx5.so.1", RTLD_NOW);
  if (!library) return;
  mlx5.create_qp = dlsym(library, "mlx5dv_create_qp");
  mlx5.extend = dlsym(library, "mlx5dv_qp_ex_from_ibv_qp_ex");
  mlx5.is_supported = dlsym(library, "mlx5dv_is_supported");
}

int dc_supported(struct ibv_context *context) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load);
  return mlx5.is_supported && mlx5.create_qp && mlx5.extend && mlx5.is_supported(context->device);
}

static struct ibv_qp_init_attr_ex extended(const struct ibv_qp_init_attr *init, struct ibv_pd *pd) {
  return (struct ibv_qp_init_attr_ex){
      .qp_context = init->qp_context,
      .send_cq = init->send_cq,
      .recv_cq = init->recv_cq,
      .srq = init->srq,
      .cap = init->cap,
      .qp_type = IBV_QPT_DRIVER,
      .sq_sig_all = init->sq_sig_all,
      .comp_mask = IBV_QP_INIT_ATTR_PD,
      .pd = pd,
  };
}

int dc_create_initiator(port *p, queue_pair *q, struct ibv_pd *pd, struct ibv_qp_init_attr *init) {
  if (!dc_supported(p->context)) return EOPNOTSUPP;
  struct ibv_qp_init_attr_ex attr = extended(init, pd);
  attr.cap.max_recv_wr = attr.cap.max_recv_sge = 0;
  attr.srq = NULL;
  attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                        IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
  struct mlx5dv_qp_init_attr dv = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC, .dc_init_attr = {.dc_type = MLX5DV_DCTYPE_DCI}};
  q->dc = calloc(1, sizeof *q->dc);
  if (!q->dc) return ENOMEM;
  q->ib = mlx5.create_qp(p->context, &attr, &dv);
  if (!q->ib) {
    const int error = errno;
    dc_free(q);
    return error ? error : EIO;
  }
  q->dc->extended = ibv_qp_to_qp_ex(q->ib);
  q->dc->dv = mlx5.extend(q->dc->extended);
  return 0;
}

int dc_create_target(port *p, queue_pair *q, struct ibv_pd *pd, struct ibv_qp_init_attr *init, uint64_t key) {
  if (!dc_supported(p->context)) return EOPNOTSUPP;
  struct ibv_qp_init_attr_ex attr = extended(init, pd);
  struct mlx5dv_qp_init_attr dv = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC, .dc_init_attr = {.dc_type = MLX5DV_DCTYPE_DCT, .dct_access_key = key}};
  q->ib = mlx5.create_qp(p->context, &attr, &dv);
  return q->ib ? 0 : errno ? errno : EIO;
}

int dc_post(queue_pair *q, struct ibv_send_wr *wr, struct ibv_ah *ah, uint32_t target, uint64_t key) {
  if (!ah) return EINVAL;
  struct ibv_qp_ex *x = q->dc->extended;
  ibv_wr_start(x);
  x->wr_id = wr->wr_id;
  x->wr_flags = wr->send_flags & ~(unsigned)IBV_SEND_INLINE;
  switch (wr->opcode) {
    case IBV_WR_SEND: ibv_wr_send(x); break;
    case IBV_WR_SEND_WITH_IMM: ibv_wr_send_imm(x, wr->imm_data); break;
    case IBV_WR_RDMA_WRITE: ibv_wr_rdma_write(x, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr); break;
    case IBV_WR_RDMA_WRITE_WITH_IMM: ibv_wr_rdma_write_imm(x, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, wr->imm_data); break;
    case IBV_WR_RDMA_READ: ibv_wr_rdma_read(x, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr); break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      ibv_wr_atomic_cmp_swp(x, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, wr->wr.atomic.compare_add, wr->wr.atomic.swap);
      break;
    case IBV_WR_ATOMIC_FETCH_AND_ADD: ibv_wr_atomic_fetch_add(x, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, wr->wr.atomic.compare_add); break;
    default: ibv_wr_abort(x); return EINVAL;
  }
  mlx5dv_wr_set_dc_addr(q->dc->dv, ah, target, key);
  if (wr->send_flags & IBV_SEND_INLINE) {
    struct ibv_data_buf parts[64];
    for (int i = 0; i < wr->num_sge; i++) parts[i] = (struct ibv_data_buf){(void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length};
    ibv_wr_set_inline_data_list(x, (size_t)wr->num_sge, parts);
  } else {
    ibv_wr_set_sge_list(x, (size_t)wr->num_sge, wr->sg_list);
  }
  return ibv_wr_complete(x);
}

#else

struct dc_initiator {
  int none;
};

int dc_supported(struct ibv_context *context) {
  (void)context;
  return 0;
}

int dc_create_initiator(port *p, queue_pair *q, struct ibv_pd *pd, struct ibv_qp_init_attr *init) {
  (void)p, (void)q, (void)pd, (void)init;
  return EOPNOTSUPP;
}

int dc_create_target(port *p, queue_pair *q, struct ibv_pd *pd, struct ibv_qp_init_attr *init, uint64_t key) {
  (void)p, (void)q, (void)pd, (void)init, (void)key;
  return EOPNOTSUPP;
}

int dc_post(queue_pair *q, struct ibv_send_wr *wr, struct ibv_ah *ah, uint32_t target, uint64_t key) {
  (void)q, (void)wr, (void)ah, (void)target, (void)key;
  return EOPNOTSUPP;
}

#endif

void dc_free(queue_pair *q) {
  free(q->dc);
  q->dc = NULL;
}
