#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "datagram-parts.h"
#include "icrc.h"

enum { BTH_BYTES = 12, ICRC_BYTES = 4, RECEIVE_CONTROL_BYTES = 2 * CMSG_SPACE(sizeof(int)), MAX_JOINED_BYTES = 65000 };

/* What the kernel says about a message: its congestion marks, and how long the packets are that it is made of, if there are several. */
static void read_control(struct msghdr *m, uint32_t *ecn, uint32_t *segment) {
  for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
    int value = 0;
    if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
      *ecn = *CMSG_DATA(c) & 3;
    } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS) {
      memcpy(&value, CMSG_DATA(c), sizeof value);
      *ecn = (uint32_t)value & 3;
    } else if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
      memcpy(&value, CMSG_DATA(c), sizeof value);
      if (value > 0) *segment = (uint32_t)value;
    }
  }
}

/*
 * The ICRC of a packet that came as number `index` of its message. Senders like this one use `index` or 0 as identification; that of others is known if
 * this process may ask for it: then *is_known is set, and the ICRC is what the packet must have.
 */
static uint32_t received_icrc(datagram *d, place *p, const uint8_t *from, int port, const uint8_t *bytes, uint32_t length, unsigned index, uint32_t *is_known) {
  const uint8_t *at = bytes + length;
  uint32_t crc = icrc_of(d->is_ipv6, from, p->address, port, p->port, index, bytes, length);
  uint32_t found = (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
  if (d->is_ipv6 || crc == found) return crc;
  if (index > 0) crc = icrc_of(0, from, p->address, port, p->port, 0, bytes, length);
  if (crc == found || p != d->places || !datagram_identifies(d)) return crc;
  *is_known = (uint32_t)identities_icrc(d->identities, from, port, bytes, length, found, &crc);
  return crc;
}

/*
 * Takes messages, or gives them: one by the call for one, which takes less time. Not by the C library: its calls are cancellation points, which costs
 * as much as asking an empty socket.
 */
static int take_messages(int fd, struct mmsghdr *m, int count) {
  if (count > 1) return (int)syscall(SYS_recvmmsg, fd, m, (unsigned)count, MSG_DONTWAIT, NULL);
  long n = syscall(SYS_recvmsg, fd, &m->msg_hdr, MSG_DONTWAIT);
  m->msg_len = (unsigned)n;
  return n < 0 ? -1 : 1;
}

static int give_messages(int fd, struct mmsghdr *m, int count) {
  if (count > 1) return (int)syscall(SYS_sendmmsg, fd, m, (unsigned)count, MSG_DONTWAIT);
  return syscall(SYS_sendmsg, fd, &m->msg_hdr, MSG_DONTWAIT) < 0 ? -1 : 1;
}

/* Takes messages of one place, after `used` ones and `packets` packets. Returns how many packets there are then, or -errno. */
static int receive_at(datagram *d, place *p, uint8_t *buffer, uint32_t *descriptors, int *used, int messages, int packets) {
  struct mmsghdr headers[DATAGRAM_MESSAGES];
  struct iovec vectors[DATAGRAM_MESSAGES];
  any_address from[DATAGRAM_MESSAGES];
  char control[DATAGRAM_MESSAGES][RECEIVE_CONTROL_BYTES];
  int first = *used;
  for (int i = 0; i < messages - first; i++) {
    vectors[i] = (struct iovec){buffer + (size_t)(first + i) * DATAGRAM_MESSAGE_BYTES, DATAGRAM_MESSAGE_BYTES};
    headers[i].msg_hdr = (struct msghdr){.msg_name = &from[i],
                                         .msg_namelen = sizeof from[i],
                                         .msg_iov = &vectors[i],
                                         .msg_iovlen = 1,
                                         .msg_control = control[i],
                                         .msg_controllen = RECEIVE_CONTROL_BYTES};
  }
  int n;
  do n = take_messages(p->fd, headers, messages - first);
  while (n < 0 && errno == EINTR);
  if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? packets : -errno;
  *used += n;
  for (int i = 0; i < n; i++) {
    struct msghdr *m = &headers[i].msg_hdr;
    uint32_t total = headers[i].msg_len, ecn = 0, segment = total;
    int is_whole = !(m->msg_flags & (MSG_TRUNC | MSG_CTRUNC)), port = ntohs(d->is_ipv6 ? from[i].v6.sin6_port : from[i].v4.sin_port);
    const uint8_t *address = d->is_ipv6 ? (uint8_t *)&from[i].v6.sin6_addr : (uint8_t *)&from[i].v4.sin_addr;
    read_control(m, &ecn, &segment);
    uint32_t at = 0;
    for (unsigned k = 0; packets < DATAGRAM_PACKETS && (at < total || k == 0); k++, packets++) {
      uint32_t *w = descriptors + (size_t)packets * DATAGRAM_WORDS, length = total - at < segment ? total - at : segment;
      int usable = is_whole && length >= BTH_BYTES + ICRC_BYTES && length <= DATAGRAM_SLOT;
      memset(w, 0, DATAGRAM_WORDS * sizeof *w);
      memcpy(w + 4, address, d->is_ipv6 ? 16 : 4);
      w[1] = (uint32_t)port;
      w[3] = ecn;
      w[8] = (uint32_t)(first + i) * DATAGRAM_MESSAGE_BYTES + at;
      w[10] = (uint32_t)(p - d->places);
      if (usable) {
        w[0] = length;
        w[2] = received_icrc(d, p, address, port, buffer + w[8], length - ICRC_BYTES, k, &w[9]);
      }
      at += length;
    }
  }
  return packets;
}

int datagram_receive(datagram *d, uint8_t *buffer, uint32_t *descriptors, int messages) {
  int used = 0, packets = 0;
  if (messages > DATAGRAM_MESSAGES) messages = DATAGRAM_MESSAGES;
  for (int i = 0; i < d->place_count && used < messages && packets >= 0; i++)
    if (d->places[i].fd >= 0) packets = receive_at(d, &d->places[i], buffer, descriptors, &used, messages, packets);
  return packets;
}

static void address_of(datagram *d, const uint32_t *w, any_address *to) {
  memset(to, 0, sizeof *to);
  if (d->is_ipv6) {
    to->v6.sin6_family = AF_INET6;
    to->v6.sin6_port = htons((uint16_t)w[1]);
    to->v6.sin6_scope_id = d->scope;
    memcpy(&to->v6.sin6_addr, w + 4, 16);
  } else {
    to->v4.sin_family = AF_INET;
    to->v4.sin_port = htons((uint16_t)w[1]);
    memcpy(&to->v4.sin_addr, w + 4, 4);
  }
}

/* Whether messages to this end may be cut up by the kernel. */
static int may_join(datagram *d, const uint32_t *w) {
  if (!d->joins || d->is_ipv6) return d->joins;
  return *(const uint8_t *)(w + 4) == 127 || memcmp(w + 4, d->places[0].address, 4) == 0;
}

/* How many packets from the first one on make one message. */
static int run_of(datagram *d, const uint32_t *w, int count) {
  if (!may_join(d, w)) return 1;
  uint32_t length = w[0], total = length + ICRC_BYTES;
  int n = 1;
  for (const uint32_t *next = w + DATAGRAM_WORDS; n < count; n++, next += DATAGRAM_WORDS) {
    total += next[0] + ICRC_BYTES;
    if (next[0] > length || next[1] != w[1] || memcmp(next + 4, w + 4, 16) != 0 || total > MAX_JOINED_BYTES) break;
    if (next[0] < length) return n + 1;
  }
  return n;
}

int datagram_send(datagram *d, uint8_t *slots, uint32_t *descriptors, int count, int *error) {
  struct mmsghdr messages[DATAGRAM_BATCH];
  struct iovec vectors[DATAGRAM_BATCH];
  any_address to[DATAGRAM_BATCH];
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(uint16_t))];
  } control[DATAGRAM_BATCH];
  int used = 0, refused = 0, sent = 0;
  if (count > DATAGRAM_BATCH) count = DATAGRAM_BATCH;
  for (int i = 0; i < count; i++) {
    uint32_t length = descriptors[(size_t)i * DATAGRAM_WORDS];
    if (length >= BTH_BYTES && length + ICRC_BYTES <= DATAGRAM_SLOT) continue;
    count = i;
    refused = EINVAL;
  }
  for (int i = 0; i < count;) {
    uint32_t *w = descriptors + (size_t)i * DATAGRAM_WORDS;
    int n = run_of(d, w, count - i);
    address_of(d, w, &to[used]);
    for (int k = 0; k < n; k++) {
      uint8_t *b = slots + (size_t)(i + k) * DATAGRAM_SLOT;
      uint32_t length = w[(size_t)k * DATAGRAM_WORDS];
      uint32_t crc = icrc_of(d->is_ipv6, d->places[0].address, (uint8_t *)(w + 4), d->places[0].port, (int)w[1], (unsigned)k, b, length);
      for (int j = 0; j < 4; j++) b[length + (uint32_t)j] = (uint8_t)(crc >> (8 * j));
      vectors[i + k] = (struct iovec){b, length + ICRC_BYTES};
    }
    messages[used].msg_hdr = (struct msghdr){.msg_name = &to[used],
                                             .msg_namelen = d->is_ipv6 ? sizeof to[used].v6 : sizeof to[used].v4,
                                             .msg_iov = &vectors[i],
                                             .msg_iovlen = (size_t)n};
    if (n > 1) {
      uint16_t segment = (uint16_t)(w[0] + ICRC_BYTES);
      memset(&control[used], 0, sizeof control[used]); /* the kernel reads the padding too */
      control[used].header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof segment), .cmsg_level = SOL_UDP, .cmsg_type = UDP_SEGMENT};
      memcpy(CMSG_DATA(&control[used].header), &segment, sizeof segment);
      messages[used].msg_hdr.msg_control = &control[used];
      messages[used].msg_hdr.msg_controllen = sizeof control[used].bytes;
    }
    used++;
    i += n;
  }
  *error = refused;
  for (int m = 0; m < used;) {
    int n = give_messages(d->places[0].fd, messages + m, used - m);
    if (n < 0) {
      if (errno == EINTR) continue;
      if (messages[m].msg_hdr.msg_iovlen > 1 && errno != EAGAIN && errno != ENOBUFS) {
        /* Some path or kernel does not cut messages up: from now on packets go one by one, with the ICRC of such. */
        d->joins = 0;
        return sent + datagram_send(d, slots + (size_t)sent * DATAGRAM_SLOT, descriptors + (size_t)sent * DATAGRAM_WORDS, count - sent, error);
      }
      *error = errno;
      break;
    }
    for (int end = m + n; m < end; m++) sent += (int)messages[m].msg_hdr.msg_iovlen;
  }
  return sent;
}
