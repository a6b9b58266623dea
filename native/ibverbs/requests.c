#include "port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

/* The hot half of a port: work requests from the command block to libibverbs, completions from there into records. */

enum { WR_SEND, WR_RECV, WR_SRQ };

#define SEQUENCE_MASK 0xffffffu
#define MOST_CHAINED 32
#define MOST_SGES 64

static uint64_t name_of(uint32_t kind, uint32_t generation, uint32_t object, uint32_t sequence) {
  return (uint64_t)kind << 62 | (uint64_t)(generation & GENERATION_MASK) << 48 | (uint64_t)object << 24 | (sequence & SEQUENCE_MASK);
}

/* ---- posting ---- */

typedef struct {
  const int32_t *w;
  double id;
  uint32_t bytes;
  int sges;
} request;

static double f64_at(const int32_t *w, int at) {
  double value;
  memcpy(&value, w + at, sizeof value);
  return value;
}

static uint64_t u64_at(const int32_t *w, int at) {
  uint64_t value;
  memcpy(&value, w + at, sizeof value);
  return value;
}

/* Elements of a command; empty ones are left out, because hardware takes a length of 0 for 2 GiB. */
static int read_sges(const int32_t *w, int words, int count, struct ibv_sge *out, uint32_t *bytes) {
  int n = 0;
  *bytes = 0;
  for (int i = 0; i < count; i++, words += SGE_WORDS) {
    uint32_t length = (uint32_t)w[words + 2];
    if (length == 0) continue;
    out[n++] = (struct ibv_sge){(uint64_t)f64_at(w, words), length, (uint32_t)w[words + 3]};
    *bytes += length;
  }
  return n;
}

static const enum ibv_wr_opcode OPCODES[] = {
    IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD,
};

static int read_send(port *p, queue_pair *q, const int32_t *w, struct ibv_send_wr *wr, struct ibv_sge *sges, uint32_t sequence) {
  uint32_t bytes, op = (uint32_t)w[C_OPCODE];
  if (op > OP_ADD) return EINVAL;
  /* Field by field: clearing all of it takes as long as the rest, and nobody reads more than the opcode asks for. */
  wr->next = NULL;
  wr->wr_id = name_of(WR_SEND, q->generation, q->object, sequence);
  wr->opcode = OPCODES[op];
  wr->send_flags = (unsigned)w[C_FLAGS];
  wr->sg_list = sges;
  int inline_bytes = w[C_INLINE];
  if (inline_bytes >= 0) {
    bytes = (uint32_t)inline_bytes;
    sges[0] = (struct ibv_sge){(uintptr_t)(w + C_SEND_WORDS + w[C_SGES] * SGE_WORDS), bytes, 0};
    wr->num_sge = bytes > 0;
    wr->send_flags |= IBV_SEND_INLINE;
  } else {
    wr->num_sge = read_sges(w, C_SEND_WORDS, w[C_SGES], sges, &bytes);
  }
  if (op == OP_SEND_IMM || op == OP_WRITE_IMM) wr->imm_data = htonl((uint32_t)w[C_IMMEDIATE]);
  if (q->type == IBV_QPT_UD) {
    wr->wr.ud.ah = port_object(p, (uint32_t)w[C_HANDLE], KIND_AH);
    wr->wr.ud.remote_qpn = (uint32_t)w[C_PEER];
    wr->wr.ud.remote_qkey = (uint32_t)w[C_PEER_KEY];
    if (!wr->wr.ud.ah) return EINVAL;
  } else if (op == OP_SWAP || op == OP_ADD) {
    wr->wr.atomic.remote_addr = (uint64_t)f64_at(w, C_REMOTE);
    wr->wr.atomic.rkey = (uint32_t)w[C_KEY];
    wr->wr.atomic.compare_add = u64_at(w, op == OP_ADD ? C_SWAP : C_COMPARE);
    wr->wr.atomic.swap = u64_at(w, C_SWAP);
  } else if (op >= OP_WRITE) {
    wr->wr.rdma.remote_addr = (uint64_t)f64_at(w, C_REMOTE);
    wr->wr.rdma.rkey = (uint32_t)w[C_KEY];
  }
  q->send.slots[sequence & q->send.mask] = (slot){f64_at(w, C_ID), bytes, op};
  return 0;
}

static const int32_t *next_command(const int32_t *w) { return w + w[C_BYTES] / 4; }

/* Posts a run of sends of one queue pair with one doorbell. `*at` moves behind what was taken; returns 0 or an errno. */
static int post_sends(port *p, const int32_t **at, const int32_t *end, uint32_t *taken) {
  struct ibv_send_wr wrs[MOST_CHAINED], *bad = NULL;
  struct ibv_sge sges[2 * MOST_SGES];
  const int32_t *w = *at;
  queue_pair *q = port_object(p, (uint32_t)w[C_OBJECT], KIND_QP);
  if (!q) return EINVAL;
  int n = 0, used = 0, error = 0;
  for (; w < end && n < MOST_CHAINED && w[C_KIND] == COMMAND_SEND && (uint32_t)w[C_OBJECT] == q->object; w = next_command(w), n++) {
    uint32_t sequence = q->send.tail + (uint32_t)n;
    if (used + w[C_SGES] + 1 > 2 * MOST_SGES) break;
    if (sequence - q->send.head >= q->send.depth) {
      error = ENOMEM;
      break;
    }
    error = read_send(p, q, w, &wrs[n], &sges[used], sequence);
    if (error) break;
    if (n > 0) wrs[n - 1].next = &wrs[n];
    used += wrs[n].num_sge;
    if (q->dc) { /* each request names its target */
      n++;
      w = next_command(w);
      break;
    }
  }
  int posted = 0;
  if (n > 0) {
    wrs[n - 1].next = NULL;
    const int32_t *first = *at;
    errno = 0;
    int failed = q->dc ? dc_post(q, wrs, port_object(p, (uint32_t)first[C_HANDLE], KIND_AH), (uint32_t)first[C_PEER], (uint32_t)first[C_PEER_KEY])
                       : ibv_post_send(q->ib, wrs, &bad);
    posted = failed ? (bad ? (int)(bad - wrs) : 0) : n;
    if (failed) error = failed == -1 && errno ? errno : failed < 0 ? -failed : failed; /* libsiw says -1 */
  }
  double *totals = (double *)p->head;
  totals[HEAD_OPERATIONS] += posted;
  *taken += (uint32_t)posted;
  double bytes = 0;
  for (; posted > 0; posted--, q->send.tail++) bytes += q->send.slots[q->send.tail & q->send.mask].bytes;
  totals[HEAD_BYTES] += bytes;
  *at = w;
  return error;
}

static int post_receive(port *p, const int32_t *w, uint32_t *taken) {
  struct ibv_sge sges[MOST_SGES];
  struct ibv_recv_wr wr = {.sg_list = sges}, *bad;
  uint32_t bytes;
  wr.num_sge = read_sges(w, C_RECV_WORDS, w[C_SGES], sges, &bytes);
  int error;
  if (w[C_KIND] == COMMAND_RECV) {
    queue_pair *q = port_object(p, (uint32_t)w[C_OBJECT], KIND_QP);
    if (!q) return EINVAL;
    request_ring *r = &q->receive;
    if (r->tail - r->head >= r->depth) return ENOMEM;
    r->slots[r->tail & r->mask] = (slot){f64_at(w, C_ID), bytes, OP_RECV};
    wr.wr_id = name_of(WR_RECV, q->generation, q->object, r->tail);
    error = ibv_post_recv(q->ib, &wr, &bad);
    if (!error) r->tail++;
  } else {
    shared_queue *s = port_object(p, (uint32_t)w[C_OBJECT], KIND_SRQ);
    if (!s) return EINVAL;
    if (s->spare == 0) return ENOMEM;
    uint32_t at = s->free[s->spare - 1];
    s->slots[at] = (slot){f64_at(w, C_ID), bytes, OP_RECV};
    wr.wr_id = name_of(WR_SRQ, s->generation, s->object, at);
    error = ibv_post_srq_recv(s->ib, &wr, &bad);
    if (!error) s->spare--;
  }
  if (!error) ++*taken;
  return error < 0 ? -error : error;
}

/* ---- reaping ---- */

/* A completion as JavaScript reads it; 0 when it belongs to nobody any more. */
static int translate(port *p, const struct ibv_wc *wc, record *out) {
  uint32_t kind = (uint32_t)(wc->wr_id >> 62), generation = (uint32_t)(wc->wr_id >> 48) & GENERATION_MASK;
  uint32_t index = (uint32_t)(wc->wr_id >> 24) & 0xffffff, sequence = (uint32_t)wc->wr_id & SEQUENCE_MASK;
  int failed = wc->status != IBV_WC_SUCCESS, grh = 1;
  *out = (record){.status = wc->status, .number = wc->qp_num, .vendor = failed ? wc->vendor_err : 0};
  if (kind == WR_SRQ) {
    shared_queue *s = port_object(p, index, KIND_SRQ);
    if (!s || s->generation != generation) return 0;
    out->id = s->slots[sequence].id;
    s->free[s->spare++] = sequence;
  } else {
    queue_pair *q = port_object(p, index, KIND_QP);
    if (!q || q->generation != generation) return 0;
    request_ring *r = kind == WR_SEND ? &q->send : &q->receive;
    uint32_t whole = r->head + ((sequence - r->head) & SEQUENCE_MASK);
    slot *s = &r->slots[whole & r->mask];
    out->id = s->id;
    out->object = index;
    r->head = whole + 1; /* and with it everything before that made no completion */
    if (kind == WR_SEND) {
      out->opcode = s->opcode;
      out->bytes = failed ? 0 : s->bytes;
      return 1;
    }
    grh = q->type == IBV_QPT_UD; /* some devices say so of every receive on RoCE */
    out->source = grh ? wc->src_qp : q->destination;
  }
  /* Some devices say of a receive what the sender is told; of a receive it can only mean that the target's memory was not to be touched. */
  if (wc->status == IBV_WC_REM_ACCESS_ERR) out->status = IBV_WC_LOC_ACCESS_ERR;
  out->opcode = !failed && wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM ? OP_RECV_WRITE : OP_RECV;
  if (failed) return 1;
  out->bytes = wc->byte_len;
  if (kind == WR_SRQ) out->source = wc->src_qp;
  if (wc->wc_flags & IBV_WC_WITH_IMM) {
    out->immediate = ntohl(wc->imm_data);
    out->flags |= 1;
  }
  if (grh && wc->wc_flags & IBV_WC_GRH) out->flags |= 2;
  if (grh) out->lid = wc->slid;
  return 1;
}

static void reap(port *p, completion_queue *cq) {
  uint32_t first = (uint32_t)p->head[HEAD_FIRST], most = (uint32_t)p->head[HEAD_MOST], filled = 0;
  double *totals = (double *)p->head;
  if (first + most > cq->records) most = first < cq->records ? cq->records - first : 0;
  struct ibv_wc wcs[16];
  while (filled < most) {
    int want = most - filled < 16 ? (int)(most - filled) : 16;
    int n = ibv_poll_cq(cq->ib, want, wcs);
    if (n < 0) {
      p->head[HEAD_ERRNO] = EIO;
      break;
    }
    for (int i = 0; i < n; i++) {
      record *out = &cq->area[first + filled];
      if (!translate(p, &wcs[i], out)) continue;
      if (out->status) totals[HEAD_ERRORS]++;
      filled++;
    }
    if (n < want) break;
  }
  p->head[HEAD_FILLED] = (int32_t)filled;
}

void port_run(port *p) {
  int32_t *head = p->head;
  if (head[HEAD_COMMANDS] > 0) {
    const int32_t *w = (const int32_t *)p->commands, *end = w + head[HEAD_COMMANDS] / 4;
    uint32_t taken = 0;
    int error = 0;
    while (w < end && !error) {
      if (w[C_KIND] == COMMAND_SEND) {
        error = post_sends(p, &w, end, &taken);
      } else {
        error = post_receive(p, w, &taken);
        w = next_command(w);
      }
    }
    head[HEAD_ERRNO] = error;
    head[HEAD_TAKEN] = (int32_t)taken;
    head[HEAD_COMMANDS] = 0;
  }
  if (head[HEAD_QUEUE] != 0) {
    completion_queue *cq = port_object(p, (uint32_t)head[HEAD_QUEUE], KIND_CQ);
    head[HEAD_QUEUE] = 0;
    head[HEAD_FILLED] = 0;
    if (cq) reap(p, cq);
  }
}
