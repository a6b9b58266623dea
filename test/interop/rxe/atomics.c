/*
 * The kernel's end of the test of one-sided operations: a queue pair of libibverbs that both works on the peer's memory and lends its own.
 *
 *   atomics DEVICE GID-INDEX PORT        one peer over TCP, lines of text: "qpn psn gid address key", all in hex
 *
 * It adds 3 ten times to the peer's word 0, swaps 0 for 5 in word 1, reads 3,000 bytes from byte 64 on and writes them to byte 4096; says "done";
 * hears "check A B", the values that the peer has left in its own words 0 and 1, and exits with status 0 when they are there.
 */
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define NEED(condition)                                      \
  do {                                                       \
    if (!(condition)) {                                      \
      fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
      exit(1);                                               \
    }                                                        \
  } while (0)

enum { BYTES = 8192, ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC };

static _Alignas(4096) uint8_t memory[BYTES], scratch[BYTES];
static struct ibv_mr *scratch_mr;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static unsigned long long their_address;
static unsigned their_key;

static void operate(enum ibv_wr_opcode opcode, uint64_t offset, uint32_t length, uint64_t compare_add, uint64_t swap) {
  struct ibv_sge sge = {(uintptr_t)scratch, length, scratch_mr->lkey};
  struct ibv_send_wr wr = {.opcode = opcode, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED}, *bad;
  struct ibv_wc wc;
  int n;
  if (opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_RDMA_WRITE) {
    wr.wr.rdma.remote_addr = their_address + offset;
    wr.wr.rdma.rkey = their_key;
  } else {
    wr.wr.atomic.remote_addr = their_address + offset;
    wr.wr.atomic.rkey = their_key;
    wr.wr.atomic.compare_add = compare_add;
    wr.wr.atomic.swap = swap;
  }
  NEED(ibv_post_send(qp, &wr, &bad) == 0);
  while ((n = ibv_poll_cq(cq, 1, &wc)) == 0) {
  }
  NEED(n == 1);
  if (wc.status != IBV_WC_SUCCESS) fprintf(stderr, "%s\n", ibv_wc_status_str(wc.status));
  NEED(wc.status == IBV_WC_SUCCESS);
}

int main(int argc, char **argv) {
  NEED(argc == 4);
  int index = atoi(argv[2]), listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[3]))};
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  NEED(bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 1) == 0);
  struct ibv_device **list = ibv_get_device_list(NULL);
  struct ibv_context *context = NULL;
  for (int i = 0; list && list[i]; i++)
    if (strcmp(ibv_get_device_name(list[i]), argv[1]) == 0) context = ibv_open_device(list[i]);
  NEED(context);
  struct ibv_pd *pd = ibv_alloc_pd(context);
  struct ibv_mr *mr = ibv_reg_mr(pd, memory, BYTES, ALL);
  scratch_mr = ibv_reg_mr(pd, scratch, BYTES, IBV_ACCESS_LOCAL_WRITE);
  cq = ibv_create_cq(context, 16, NULL, NULL, 0);
  struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .cap = {16, 16, 1, 1, 0}, .qp_type = IBV_QPT_RC};
  qp = ibv_create_qp(pd, &init);
  union ibv_gid gid;
  NEED(mr && scratch_mr && cq && qp && ibv_query_gid(context, 1, index, &gid) == 0);

  int peer = accept(listener, NULL, NULL);
  FILE *in = fdopen(peer, "r"), *out = fdopen(dup(peer), "w");
  unsigned their_qp, their_psn;
  char text[64], hex[33] = "";
  NEED(fscanf(in, "%x %x %32s %llx %x", &their_qp, &their_psn, text, &their_address, &their_key) == 5);
  union ibv_gid theirs;
  for (int i = 0; i < 16; i++) {
    unsigned byte;
    NEED(sscanf(text + 2 * i, "%2x", &byte) == 1);
    theirs.raw[i] = (uint8_t)byte;
    sprintf(hex + 2 * i, "%02x", gid.raw[i]);
  }
  struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL};
  NEED(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
  a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = their_qp, .rq_psn = their_psn, .max_dest_rd_atomic = 1, .min_rnr_timer = 12};
  a.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh = {.dgid = theirs, .sgid_index = (uint8_t)index, .hop_limit = 64}};
  NEED(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
  a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .sq_psn = 77, .max_rd_atomic = 1};
  NEED(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
  fprintf(out, "%x %x %s %llx %x\n", qp->qp_num, 77, hex, (unsigned long long)(uintptr_t)memory, mr->rkey);
  fflush(out);

  NEED(fscanf(in, "%8s", text) == 1 && strcmp(text, "go") == 0);
  for (uint64_t i = 0; i < 10; i++) {
    operate(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 3, 0);
    NEED(*(uint64_t *)scratch == 3 * i);
  }
  operate(IBV_WR_ATOMIC_CMP_AND_SWP, 8, 8, 0, 5);
  NEED(*(uint64_t *)scratch == 0);
  operate(IBV_WR_RDMA_READ, 64, 3000, 0, 0);
  operate(IBV_WR_RDMA_WRITE, 4096, 3000, 0, 0);
  fprintf(out, "done\n");
  fflush(out);

  unsigned long long word0, word1;
  NEED(fscanf(in, "%8s %llx %llx", text, &word0, &word1) == 3 && strcmp(text, "check") == 0);
  NEED(((uint64_t *)memory)[0] == word0 && ((uint64_t *)memory)[1] == word1);
  fprintf(out, "right\n");
  fflush(out);
  return 0;
}
