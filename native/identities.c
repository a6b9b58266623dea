#define _GNU_SOURCE
#include "identities.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "icrc.h"

enum { QUEUE_BYTES = 32 << 20, KEPT = 4096, BATCH = 64, BTH_BYTES = 12, UDP_BYTES = 8, LONGEST_HEADERS = 60 + UDP_BYTES + BTH_BYTES };

typedef struct identity {
  uint8_t source[4], bth[BTH_BYTES];
  uint16_t port, identification;
} identity;

struct identities {
  int fd, port;
  uint8_t address[4];
  /* Where the next one goes, and which was found last: the next one wanted is usually behind it. */
  unsigned next, last;
  identity kept[KEPT];
};

identities *identities_open(int raw_fd, const uint8_t *address, int port) {
  uint32_t own;
  memcpy(&own, address, 4);
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 4), /* identification */
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 6, 0),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 16), /* destination */
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohl(own), 0, 4),
      BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0), /* length of the IP header */
      BPF_STMT(BPF_LD | BPF_H | BPF_IND, 2),  /* destination port */
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)port, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, LONGEST_HEADERS),
      BPF_STMT(BPF_RET | BPF_K, 0),
  };
  struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
  identities *s = calloc(1, sizeof *s);
  if (!s || setsockopt(raw_fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0) {
    free(s);
    close(raw_fd);
    return NULL;
  }
  /* A packet counts with all of its bytes, however few are kept. */
  int bytes = QUEUE_BYTES;
  if (setsockopt(raw_fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) != 0) setsockopt(raw_fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  s->fd = raw_fd;
  s->port = port;
  memcpy(s->address, address, 4);
  return s;
}

void identities_close(identities *s) {
  if (!s) return;
  close(s->fd);
  free(s);
}

/* Keeps the headers that have come. */
static void take(identities *s) {
  uint8_t packets[BATCH][LONGEST_HEADERS];
  struct iovec vectors[BATCH];
  struct mmsghdr headers[BATCH];
  int n;
  do {
    memset(headers, 0, sizeof headers);
    for (int i = 0; i < BATCH; i++) {
      vectors[i] = (struct iovec){packets[i], LONGEST_HEADERS};
      headers[i].msg_hdr = (struct msghdr){.msg_iov = &vectors[i], .msg_iovlen = 1};
    }
    n = recvmmsg(s->fd, headers, BATCH, MSG_DONTWAIT, NULL);
    for (int i = 0; i < n; i++) {
      const uint8_t *ip = packets[i], *udp = ip + 4 * (ip[0] & 15);
      if (headers[i].msg_len < (unsigned)(udp - ip) + UDP_BYTES + BTH_BYTES) continue;
      identity *one = &s->kept[s->next++ % KEPT];
      memcpy(one->source, ip + 12, 4);
      memcpy(one->bth, udp + UDP_BYTES, BTH_BYTES);
      one->port = (uint16_t)(udp[0] << 8 | udp[1]);
      one->identification = (uint16_t)(ip[4] << 8 | ip[5]);
    }
  } while (n == BATCH || (n < 0 && errno == EINTR));
}

static int find(identities *s, const uint8_t *source, int port, const uint8_t *bytes, uint32_t length, uint32_t found, uint32_t *icrc) {
  int is_known = 0;
  for (unsigned i = 1; i <= KEPT; i++) {
    identity *one = &s->kept[(s->last + i) % KEPT];
    if (one->port != port || memcmp(one->bth, bytes, BTH_BYTES) != 0 || memcmp(one->source, source, 4) != 0) continue;
    is_known = 1;
    *icrc = icrc_of(0, source, s->address, port, s->port, one->identification, bytes, length);
    if (*icrc != found) continue;
    /* It is not wanted again: a packet that is sent again has another one, and when that was lost here nothing is known. */
    one->port = 0;
    s->last = (s->last + i) % KEPT;
    break;
  }
  return is_known;
}

int identities_icrc(identities *s, const uint8_t *source, int port, const uint8_t *bytes, uint32_t length, uint32_t found, uint32_t *icrc) {
  if (find(s, source, port, bytes, length, found, icrc) && *icrc == found) return 1;
  take(s);
  return find(s, source, port, bytes, length, found, icrc);
}
