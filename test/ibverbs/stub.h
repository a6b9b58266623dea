/* What the two halves of the stand-in share: stub.c, libibverbs, and stub-dc.c, mlx5dv. */
#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

__attribute__((format(printf, 1, 2))) void note(const char *format, ...);
int is_rich(void);
void complete(uint32_t number, uint64_t id, unsigned flags);
struct ibv_qp *make_pair(struct ibv_context *c, struct ibv_pd *pd, void *qp_context, enum ibv_qp_type type, uint32_t number, size_t size);
/* The rules of a DCI's or DCT's states; returns 0 or an errno. */
int modify_dynamic(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
