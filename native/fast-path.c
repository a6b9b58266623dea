#include "fast-path.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* OFFERS: how often a batch is offered to a socket that has no room before it counts as lost. */
enum { ICRC_BYTES = 4, CONGESTED = 3, OFFERS = 100 };

/* Without a socket, in tests, the time is what it is said to be. */
static double now_ns(fast_path *p) {
  if (!p->socket) return p->memory.counters[W_NOW];
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return p->memory.counters[W_NOW] = (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Carries a packet out. 0: it is not a usual one, not intact, or not from where it should be. */
static int take(fast_path *p, const uint32_t *w) {
  if (w[0] < ICRC_BYTES + 12 || w[3] == CONGESTED) return 0;
  const uint8_t *b = p->rx + w[8], *icrc = b + w[0] - ICRC_BYTES;
  uint32_t stored;
  memcpy(&stored, icrc, sizeof stored); /* little-endian, as this machine is */
  uint32_t number = (uint32_t)b[5] << 16 | (uint32_t)b[6] << 8 | b[7];
  fast_qp *q = p->table[number % FAST_TABLE];
  if (stored != w[2] || !q || q->qp_num != number || memcmp(w + 4, q->peer_address, sizeof q->peer_address) != 0) return 0;
  double *words = p->memory.counters;
  if (!rc_fast_receive(&p->memory, q, b, w[0] - ICRC_BYTES, words[W_NOW])) return 0;
  int ready = (int)words[W_READY_COUNT];
  if (ready == 0 || words[W_READY + ready - 1] != (double)q->slot) {
    words[W_READY + ready] = (double)q->slot;
    words[W_READY_COUNT] = ready + 1;
  }
  return 1;
}

int fast_continue(fast_path *p, int from) {
  int count = (int)p->memory.counters[W_PACKETS];
  while (from < count && take(p, p->rx_descriptors + (size_t)from * DATAGRAM_WORDS)) from++;
  return from;
}

int fast_receive(fast_path *p, int messages) {
  int count = datagram_receive(p->socket, p->rx, p->rx_descriptors, messages);
  p->memory.counters[C_SYSTEM_CALLS]++;
  p->memory.counters[W_PACKETS] = count < 0 ? 0 : count;
  p->memory.counters[W_READY_COUNT] = 0;
  if (count <= 0) return count;
  now_ns(p);
  return fast_continue(p, 0);
}

int fast_send(fast_path *p, fast_qp *q, int limit, int *count) {
  double now = now_ns(p);
  for (int n = 0; n < limit && *count < DATAGRAM_BATCH; n++) {
    int length = rc_fast_next(&p->memory, q, p->tx + (size_t)*count * DATAGRAM_SLOT, now);
    if (length <= 0) return length;
    uint32_t *w = p->tx_descriptors + (size_t)(*count)++ * DATAGRAM_WORDS;
    w[0] = (uint32_t)length;
    w[1] = (uint32_t)q->peer_port;
    memcpy(w + 4, q->peer_address, sizeof q->peer_address);
  }
  return 1;
}

void fast_leave(fast_path *p, int count) {
  double *counters = p->memory.counters;
  for (int done = 0, offers = 0, error; done < count;) {
    done += datagram_send(p->socket, p->tx + (size_t)done * DATAGRAM_SLOT, p->tx_descriptors + (size_t)done * DATAGRAM_WORDS, count - done, &error);
    counters[C_SYSTEM_CALLS]++;
    if (error == 0 || (error == EAGAIN && ++offers < OFFERS)) continue;
    if (error == EMSGSIZE) counters[C_TOO_LONG]++;
    counters[C_SEND_ERRORS]++;
    done++;
  }
}
