#include "rc-fast.h"

#include <math.h>
#include <string.h>

/* src/verbs/access.ts, opcode.ts, work-completions.ts, transport/send-queue.ts */
enum { LOCAL_WRITE = 1, REMOTE_WRITE = 2 };
enum { OP_SEND = 0, OP_SEND_IMM = 1, OP_WRITE = 2, OP_WRITE_IMM = 3, OP_READ = 4, WC_RECV = 7, WC_RECV_WITH_IMM = 8, WC_WITH_IMM = 1 };
enum { SIGNALED = 1, FENCE = 2, SOLICITED = 4 };
enum { READY = 0, NO_REPLY = -1, ACK_UNLIMITED = 0x1f, PACKETS_PER_ACK = 32, PSN_MASK = 0xffffff, PSN_HALF = 0x7fffff };
enum { KIND_NONE, KIND_SEND, KIND_WRITE };
enum { BTH = 12, RETH = 16, AETH = 4, IMMEDIATE = 4, ACKNOWLEDGE = 17, FULL_PARTITION = 0x7fff };
enum { HEAD, TAIL, ARMED, COUNT, PERIOD, PENDING, DUE, OVERRUN };
#define MAX_MESSAGE 1073741824.0
#define SEQUENCE_MASK 0x3fffffff

/* What RC opcodes 0 to 11 say: SEND and WRITE, each First, Middle, Last, Last with immediate, Only, Only with immediate. */
enum { IS_FIRST = 1, IS_LAST = 2, HAS_IMMEDIATE = 4 };
static const uint8_t PARTS[6] = {IS_FIRST, 0, IS_LAST, IS_LAST | HAS_IMMEDIATE, IS_FIRST | IS_LAST, IS_FIRST | IS_LAST | HAS_IMMEDIATE};
enum { WRITE_OPCODES = 6, DATA_OPCODES = 12 };

static inline uint32_t get32(const uint8_t *b) { return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3]; }
static inline uint32_t get24(const uint8_t *b) { return (uint32_t)b[0] << 16 | (uint32_t)b[1] << 8 | b[2]; }
static inline void put32(uint8_t *b, uint32_t v) {
  v = __builtin_bswap32(v);
  memcpy(b, &v, 4);
}
static inline int32_t psn_diff(uint32_t a, uint32_t b) { return (int32_t)((a - b) << 8) >> 8; }
static inline uint32_t at(const double *s, int i) { return (uint32_t)s[i]; }
static inline int32_t load(const int32_t *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
static inline void store(int32_t *word, int32_t value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }

/* ---- memory and completions ---- */

/* Where the bytes of a range are; NULL where it is not registered, not in one piece, or does not grant what is asked. */
static inline uint8_t *find(const fast_memory *m, const fast_qp *q, uint32_t key, double address, double length, uint32_t access) {
  if (key >> 8 >= m->region_count) return NULL;
  const fast_region *r = m->regions + (key >> 8);
  if (r->data == 0 || r->key != key || r->domain != (double)q->domain || ((uint32_t)r->access & access) != access) return NULL;
  if (!(address >= r->address && address + length <= r->address + r->length)) return NULL;
  return (uint8_t *)(uintptr_t)(r->data + (address - r->address));
}

static inline int has_room(const fast_ring *r) {
  return !load(r->control + OVERRUN) && r->control[TAIL] - load(r->control + HEAD) < (int32_t)r->depth;
}

static void push(const fast_memory *m, const fast_qp *q, const fast_ring *r, double id, int opcode, uint32_t bytes, uint32_t immediate, int flags,
                 int is_solicited) {
  int32_t *c = r->control, tail = c[TAIL];
  uint64_t i = (uint32_t)tail & r->mask;
  r->id[i] = id;
  r->status[i] = 0;
  r->opcode[i] = (uint8_t)opcode;
  r->byte_length[i] = bytes;
  r->immediate[i] = immediate;
  r->qp_num[i] = (uint32_t)q->qp_num;
  r->source_qp[i] = 0;
  r->flags[i] = (uint8_t)flags;
  r->epoch[i] = (uint32_t)q->epoch;
  __atomic_store_n(c + TAIL, (int32_t)((uint32_t)tail + 1), __ATOMIC_SEQ_CST);
  int armed = __atomic_load_n(c + ARMED, __ATOMIC_SEQ_CST);
  if (armed == 0 || (armed == 1 && !is_solicited)) return;
  int32_t pending = __atomic_add_fetch(c + PENDING, 1, __ATOMIC_SEQ_CST);
  int is_event = pending >= load(c + COUNT);
  if (!is_event && (pending > 1 || load(c + PERIOD) == 0)) return;
  if (is_event) __atomic_store_n(c + ARMED, 0, __ATOMIC_SEQ_CST);
  __atomic_store_n(c + DUE, is_event ? 1 : 2, __ATOMIC_SEQ_CST);
  m->counters[C_MUST_RING] = 1;
}

/* ---- responder ---- */

/* The oldest receive request becomes the one being filled. */
static int take_receive(fast_qp *q) {
  double *s = q->state;
  if (s[S_HAS_WORK] != 0) return 1;
  if (!q->receive.control) return 0;
  uint32_t head = (uint32_t)q->receive.control[HEAD];
  if (head == (uint32_t)load(q->receive.control + TAIL)) return 0;
  uint64_t i = head & q->receive.mask, base = i * q->receive.max_sge;
  double length = 0;
  int n = q->receive.sge_count[i];
  for (int k = 0; k < n; k++) {
    s[S_WORK_SGE + 3 * k] = q->receive.sge_address[base + (uint64_t)k];
    s[S_WORK_SGE + 3 * k + 1] = q->receive.sge_length[base + (uint64_t)k];
    s[S_WORK_SGE + 3 * k + 2] = q->receive.sge_key[base + (uint64_t)k];
    length += q->receive.sge_length[base + (uint64_t)k];
  }
  s[S_HAS_WORK] = 1;
  s[S_WORK_ID] = q->receive.id[i];
  s[S_WORK_LENGTH] = length;
  s[S_WORK_SGES] = n;
  store(q->receive.control + HEAD, (int32_t)((head + 1) & SEQUENCE_MASK));
  return 1;
}

/* Puts a piece of a SEND into the request being filled. 0, with nothing written, when it does not fit or may not be written. */
static int scatter(const fast_memory *m, const fast_qp *q, double placed, const uint8_t *from, uint32_t length) {
  const double *s = q->state;
  if (length == 0) return 1;
  if (placed + length > s[S_WORK_LENGTH]) return 0;
  for (int pass = 0; pass < 2; pass++) {
    double skip = placed;
    uint32_t left = length;
    for (int k = 0; k < (int)s[S_WORK_SGES]; k++) {
      const double *e = s + S_WORK_SGE + 3 * k;
      if (pass == 0) {
        if (e[1] > 0 && !find(m, q, (uint32_t)e[2], e[0], e[1], LOCAL_WRITE)) return 0;
        continue;
      }
      if (e[1] <= skip) {
        skip -= e[1];
        continue;
      }
      uint32_t n = e[1] - skip < left ? (uint32_t)(e[1] - skip) : left;
      memcpy(find(m, q, (uint32_t)e[2], e[0], e[1], LOCAL_WRITE) + (uint64_t)skip, from + (length - left), n);
      left -= n;
      skip = 0;
      if (left == 0) break;
    }
  }
  return 1;
}

static int receive_data(const fast_memory *m, fast_qp *q, const uint8_t *b, uint32_t length) {
  double *s = q->state;
  int is_write = b[0] >= WRITE_OPCODES, part = PARTS[b[0] % WRITE_OPCODES];
  int is_first = part & IS_FIRST, is_last = part & IS_LAST, has_immediate = (part & HAS_IMMEDIATE) != 0;
  int consumes = is_last && (!is_write || has_immediate), kind = is_write ? KIND_WRITE : KIND_SEND;
  uint32_t psn = get24(b + 9), header = BTH + (is_write && is_first ? RETH : 0u) + (has_immediate ? IMMEDIATE : 0u), pad = b[1] >> 4 & 3;
  if (s[S_READY] == 0 || psn != at(s, S_EXPECTED) || length < header + pad) return 0;
  uint32_t payload = length - header - pad;
  if (s[S_KIND] != (is_first ? KIND_NONE : kind)) return 0;
  if (is_last ? payload > q->mtu || (!is_first && payload == 0) : payload != q->mtu) return 0;
  if (consumes && !has_room(&q->receive_cq)) return 0;
  const uint8_t *data = b + header;
  double placed = is_first ? 0 : s[S_PLACED];
  if (is_write) {
    double address = s[S_ADDRESS], total = s[S_TOTAL];
    uint32_t key = at(s, S_KEY);
    if (is_first) {
      if ((q->access & REMOTE_WRITE) == 0 || get32(b + BTH) >= 0x200000) return 0;
      address = (double)((uint64_t)get32(b + BTH) << 32 | get32(b + BTH + 4));
      key = get32(b + BTH + 8);
      total = get32(b + BTH + 12);
      if (total > MAX_MESSAGE || (total > 0 && !find(m, q, key, address, total, REMOTE_WRITE))) return 0;
    }
    if (is_last ? placed + payload != total : placed + payload >= total) return 0;
    uint8_t *to = payload ? find(m, q, key, address + placed, payload, REMOTE_WRITE) : NULL;
    if (payload && !to) return 0;
    if (consumes && !take_receive(q)) return 0;
    s[S_ADDRESS] = address;
    s[S_KEY] = key;
    s[S_TOTAL] = total;
    if (payload == 8) memcpy(to, data, 8);
    else if (payload) memcpy(to, data, payload);
  } else if ((is_first && !take_receive(q)) || !scatter(m, q, placed, data, payload)) {
    return 0;
  }
  s[S_PLACED] = placed + payload;
  s[S_KIND] = is_last ? KIND_NONE : kind;
  if (consumes) {
    uint32_t immediate = has_immediate ? get32(data - IMMEDIATE) : 0;
    s[S_HAS_WORK] = 0;
    push(m, q, &q->receive_cq, s[S_WORK_ID], is_write ? WC_RECV_WITH_IMM : WC_RECV, (uint32_t)s[S_PLACED], immediate, has_immediate ? WC_WITH_IMM : 0,
         b[1] >> 7);
  }
  s[S_NAKED] = 0;
  s[S_EXPECTED] = (psn + 1) & PSN_MASK;
  if (is_last) s[S_MSN] = (at(s, S_MSN) + 1) & PSN_MASK;
  if (b[8] & 0x80 || s[S_REPLY_SYNDROME] != NO_REPLY) {
    s[S_REPLY_SYNDROME] = ACK_UNLIMITED;
    s[S_REPLY_PSN] = psn;
  }
  m->counters[C_BYTES_RECEIVED] += payload;
  return 1;
}

/* ---- requester ---- */

static void progress(fast_qp *q, uint32_t una, double now_ns) {
  double *s = q->state;
  if (s[S_ALLOWED] < s[S_WINDOW]) {
    s[S_ACKED_SINCE] += psn_diff(una, at(s, S_UNA));
    if (s[S_ACKED_SINCE] >= s[S_ALLOWED]) {
      s[S_ACKED_SINCE] = 0;
      s[S_ALLOWED]++;
    }
  }
  s[S_UNA] = una;
  s[S_RETRIES] = (double)q->retry_count;
  s[S_RNR_RETRIES] = (double)q->rnr_retry;
  s[S_GONE_BACK] = 0;
  s[S_RNR_UNTIL] = 0;
  s[S_DEADLINE] = una == at(s, S_MAX_SENT) || q->timeout_ns == 0 ? INFINITY : now_ns + (double)q->timeout_ns;
}

/* Requests complete one by one, so that stopping at one that is not ours leaves the rest to the other machine. */
static int receive_acknowledge(const fast_memory *m, fast_qp *q, const uint8_t *b, uint32_t length, double now_ns) {
  double *s = q->state;
  uint32_t psn = get24(b + 9);
  if (length != BTH + AETH || (b[1] >> 4 & 3) != 0 || (b[BTH] >> 5 & 3) != 0 || s[S_STATE] != READY) return 0;
  if (psn_diff(psn, at(s, S_UNA)) < 0 || psn_diff(psn, at(s, S_MAX_SENT)) >= 0) return 0;
  while (psn_diff(psn, at(s, S_UNA)) >= 0) {
    uint32_t head = (uint32_t)q->send.control[HEAD];
    uint64_t i = head & q->send.mask;
    if (q->send.opcode[i] >= OP_READ) return 0;
    uint32_t after = (q->send.first_psn[i] + q->send.packets[i]) & PSN_MASK;
    if (psn_diff(psn, after) < -1) {
      progress(q, (psn + 1) & PSN_MASK, now_ns);
      continue;
    }
    int is_reported = q->send.flags[i] & SIGNALED;
    double id = q->send.id[i];
    int opcode = q->send.opcode[i];
    uint32_t bytes = q->send.length[i];
    if (is_reported && !has_room(&q->send_cq)) return 0;
    progress(q, after, now_ns);
    store(q->send.control + HEAD, (int32_t)((head + 1) & SEQUENCE_MASK));
    if (!is_reported) continue;
    m->counters[C_OPERATIONS]++;
    m->counters[C_BYTES] += bytes;
    push(m, q, &q->send_cq, id, opcode, bytes, 0, 0, 0);
  }
  if (psn_diff(at(s, S_CURSOR_PSN), at(s, S_UNA)) < 0) {
    s[S_CURSOR_PSN] = s[S_UNA];
    s[S_CURSOR] = q->send.control[HEAD];
    s[S_READS] = 0;
  }
  return 1;
}

int rc_fast_receive(const fast_memory *m, fast_qp *q, const uint8_t *b, uint32_t length, double now_ns) {
  if (q->state[S_OWNED] != 0 || length < BTH || (length & 3) != 0 || (b[1] & 0x0f) != 0) return 0;
  if ((((uint32_t)b[2] << 8 | b[3]) & FULL_PARTITION) != FULL_PARTITION) return 0;
  q->state[S_VERSION]++;
  int done = b[0] == ACKNOWLEDGE ? receive_acknowledge(m, q, b, length, now_ns) : b[0] < DATA_OPCODES && receive_data(m, q, b, length);
  if (done) m->counters[C_PACKETS_RECEIVED]++;
  return done;
}

static inline uint8_t *header(const fast_qp *q, uint8_t *b, int opcode, int flags, uint32_t psn, int asks_ack) {
  b[0] = (uint8_t)opcode;
  b[1] = (uint8_t)(0x40 | flags);
  b[2] = (uint8_t)(q->partition_key >> 8);
  b[3] = (uint8_t)q->partition_key;
  put32(b + 4, (uint32_t)q->dest_qp);
  put32(b + 8, (asks_ack ? 0x80000000u : 0) | psn);
  return b + BTH;
}

static int is_local_registered(const fast_memory *m, const fast_qp *q, uint64_t i) {
  if (q->send.is_inline[i]) return 1;
  uint64_t base = i * q->send.max_sge;
  for (uint64_t k = base; k < base + q->send.sge_count[i]; k++)
    if (q->send.sge_length[k] > 0 && !find(m, q, q->send.sge_key[k], q->send.sge_address[k], q->send.sge_length[k], 0)) return 0;
  return 1;
}

static int gather(const fast_memory *m, const fast_qp *q, uint64_t i, uint64_t offset, uint32_t length, uint8_t *out) {
  if (q->send.is_inline[i]) {
    memcpy(out, q->send.inline_bytes + i * q->send.max_inline + offset, length);
    return 1;
  }
  uint64_t base = i * q->send.max_sge;
  for (uint64_t k = base; k < base + q->send.sge_count[i] && length > 0; k++) {
    uint32_t room = q->send.sge_length[k];
    if (room <= offset) {
      offset -= room;
      continue;
    }
    uint32_t n = room - (uint32_t)offset < length ? room - (uint32_t)offset : length;
    const uint8_t *from = find(m, q, q->send.sge_key[k], q->send.sge_address[k] + (double)offset, n, 0);
    if (!from) return 0;
    memcpy(out, from, n);
    out += n;
    length -= n;
    offset = 0;
  }
  return length == 0;
}

/* Gives the request at the cursor its PSNs. */
static int start(const fast_memory *m, fast_qp *q, uint64_t i) {
  double *s = q->state;
  uint32_t length = q->send.length[i];
  if (length > MAX_MESSAGE || !is_local_registered(m, q, i)) return 0;
  uint32_t packets = length <= q->mtu ? 1 : (uint32_t)((length + q->mtu - 1) / q->mtu);
  if (psn_diff(at(s, S_NEXT_PSN), at(s, S_UNA)) + (int32_t)packets > PSN_HALF) return 0;
  q->send.first_psn[i] = at(s, S_NEXT_PSN);
  q->send.packets[i] = packets;
  s[S_NEXT_PSN] = (at(s, S_NEXT_PSN) + packets) & PSN_MASK;
  s[S_ASSIGNED] = (at(s, S_ASSIGNED) + 1) & SEQUENCE_MASK;
  return 1;
}

static int next_request(const fast_memory *m, fast_qp *q, uint8_t *b, double now_ns) {
  double *s = q->state;
  if (s[S_STATE] != READY) return -1;
  if (s[S_RNR_UNTIL] != 0 || at(s, S_CURSOR) == (uint32_t)load(q->send.control + TAIL)) return 0;
  uint64_t i = at(s, S_CURSOR) & q->send.mask;
  int opcode = q->send.opcode[i], flags = q->send.flags[i];
  if (opcode >= OP_READ || flags & FENCE) return -1;
  if (s[S_CURSOR] == s[S_ASSIGNED] && !start(m, q, i)) return -1;
  double most = s[S_WINDOW] < s[S_ALLOWED] ? s[S_WINDOW] : s[S_ALLOWED];
  uint32_t psn = at(s, S_CURSOR_PSN), index = (uint32_t)psn_diff(psn, q->send.first_psn[i]), packets = q->send.packets[i];
  int in_flight = psn_diff(psn, at(s, S_UNA)), is_last = index == packets - 1, is_write = opcode >= OP_WRITE;
  if (in_flight >= most) return 0;

  uint32_t total = q->send.length[i], offset = index * (uint32_t)q->mtu, length = is_last ? total - offset : (uint32_t)q->mtu, pad = -length & 3;
  int has_immediate = is_last && (opcode == OP_SEND_IMM || opcode == OP_WRITE_IMM);
  int part = !is_last ? (index == 0 ? 0 : 1) : (packets == 1 ? 4 : 2) + has_immediate;
  int since = (int)s[S_SINCE_ACK] + 1, asks_ack = is_last || s[S_ASKS_ACK] != 0 || since >= PACKETS_PER_ACK || in_flight + 1 >= most;
  int solicits = is_last && flags & SOLICITED;
  uint8_t *p = header(q, b, part + (is_write ? WRITE_OPCODES : 0), (solicits ? 0x80 : 0) | (int)pad << 4, psn, asks_ack);
  if (is_write && index == 0) {
    uint64_t address = (uint64_t)q->send.remote_address[i];
    put32(p, (uint32_t)(address >> 32));
    put32(p + 4, (uint32_t)address);
    put32(p + 8, q->send.remote_key[i]);
    put32(p + 12, total);
    p += RETH;
  }
  if (has_immediate) {
    put32(p, q->send.immediate[i]);
    p += IMMEDIATE;
  }
  if (!gather(m, q, i, offset, length, p)) return -1;
  memset(p + length, 0, pad);
  s[S_SINCE_ACK] = asks_ack ? 0 : since;
  s[S_ASKS_ACK] = 0;
  psn = (psn + 1) & PSN_MASK;
  s[S_CURSOR_PSN] = psn;
  if (is_last) s[S_CURSOR] = (at(s, S_CURSOR) + 1) & SEQUENCE_MASK;
  if (psn_diff(psn, at(s, S_MAX_SENT)) > 0) s[S_MAX_SENT] = psn;
  else m->counters[C_RETRANSMITTED]++;
  if (s[S_DEADLINE] == INFINITY && q->timeout_ns > 0) s[S_DEADLINE] = now_ns + (double)q->timeout_ns;
  int bytes = (int)(p - b) + (int)(length + pad);
  m->counters[C_PACKETS_SENT]++;
  m->counters[C_BYTES_SENT] += bytes;
  return bytes;
}

/* Of what RcEndpoint.next may send: requests and acknowledges, and one request before an acknowledge. */
int rc_fast_next(const fast_memory *m, fast_qp *q, uint8_t *b, double now_ns) {
  double *s = q->state;
  int owes_ack = s[S_REPLY_SYNDROME] == ACK_UNLIMITED;
  if (s[S_OWNED] != 0 || s[S_OWES_CNP] != 0 || s[S_PENDING_RESOURCES] != 0 || (!owes_ack && s[S_REPLY_SYNDROME] != NO_REPLY)) return -1;
  s[S_VERSION]++;
  if (!owes_ack || s[S_OVERTAKEN] == 0) {
    int length = next_request(m, q, b, now_ns);
    if (length < 0) return -1;
    s[S_OVERTAKEN] = owes_ack && length > 0;
    if (length > 0 || !owes_ack) return length;
  }
  s[S_OVERTAKEN] = 0;
  s[S_REPLY_SYNDROME] = NO_REPLY;
  uint8_t *p = header(q, b, ACKNOWLEDGE, 0, at(s, S_REPLY_PSN), 0);
  put32(p, (uint32_t)ACK_UNLIMITED << 24 | at(s, S_MSN));
  m->counters[C_PACKETS_SENT]++;
  m->counters[C_BYTES_SENT] += BTH + AETH;
  return BTH + AETH;
}
