#define _GNU_SOURCE
#include "datagram.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "icrc.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef SOL_UDP
#define SOL_UDP 17
#endif

enum { BTH_BYTES = 12, ICRC_BYTES = 4, RECEIVE_CONTROL_BYTES = 2 * CMSG_SPACE(sizeof(int)), MAX_JOINED_BYTES = 65000 };

typedef union any_address {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
} any_address;

struct datagram {
  int fd, wake_fd, is_ipv6, port;
  /* Several packets may be given to the kernel as one message. */
  int joins;
  uint32_t scope;
  uint8_t address[16];
};

static int set_int(int fd, int level, int option, int value) { return setsockopt(fd, level, option, &value, sizeof value); }

/* The forced form needs a privilege and is not bound by the system's limit. */
static void set_buffer(int fd, int forced, int plain, int bytes) {
  if (set_int(fd, SOL_SOCKET, forced, bytes) != 0) set_int(fd, SOL_SOCKET, plain, bytes);
}

static int parse(const char *text, int port, any_address *out, socklen_t *length) {
  memset(out, 0, sizeof *out);
  if (inet_pton(AF_INET, text, &out->v4.sin_addr) == 1) {
    out->v4.sin_family = AF_INET;
    out->v4.sin_port = htons((uint16_t)port);
    *length = sizeof out->v4;
    return 0;
  }
  char name[64];
  const char *percent = strchr(text, '%');
  size_t n = percent ? (size_t)(percent - text) : strlen(text);
  if (n >= sizeof name) return EINVAL;
  memcpy(name, text, n);
  name[n] = 0;
  if (inet_pton(AF_INET6, name, &out->v6.sin6_addr) != 1) return EINVAL;
  out->v6.sin6_family = AF_INET6;
  out->v6.sin6_port = htons((uint16_t)port);
  out->v6.sin6_scope_id = percent ? (uint32_t)strtoul(percent + 1, NULL, 10) : 0;
  *length = sizeof out->v6;
  return 0;
}

/* A socket belongs to the network namespace it was made in, whatever its thread does later. Returns a descriptor, or -1 with errno. */
static int socket_in(const char *network, int family) {
  int type = SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
  if (!network) return socket(family, type, 0);
  int here = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC), there = open(network, O_RDONLY | O_CLOEXEC), fd = -1;
  int error = here < 0 || there < 0 || setns(there, CLONE_NEWNET) != 0 ? errno : 0;
  if (!error) {
    fd = socket(family, type, 0);
    error = errno;
    if (setns(here, CLONE_NEWNET) != 0) abort();
  }
  if (here >= 0) close(here);
  if (there >= 0) close(there);
  errno = error;
  return fd;
}

int datagram_open(const char *network, const char *address, int port, int buffer_bytes, datagram **out) {
  any_address a;
  socklen_t length;
  int error = parse(address, port, &a, &length);
  if (error) return error;
  datagram *d = calloc(1, sizeof *d);
  if (!d) return ENOMEM;
  d->wake_fd = -1;
  d->is_ipv6 = a.any.sa_family == AF_INET6;
  d->fd = socket_in(network, a.any.sa_family);
  if (d->fd < 0) goto failed;
  if (d->is_ipv6) {
    if (set_int(d->fd, IPPROTO_IPV6, IPV6_V6ONLY, 1) != 0) goto failed;
    if (set_int(d->fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO) != 0) goto failed;
    set_int(d->fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
  } else {
    if (set_int(d->fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO) != 0) goto failed;
    set_int(d->fd, IPPROTO_IP, IP_RECVTOS, 1);
  }
  const char *join = getenv("VERBENA_ROCE_JOIN");
  d->joins = !(join && strcmp(join, "0") == 0) && set_int(d->fd, SOL_UDP, UDP_GRO, 1) == 0;
  set_buffer(d->fd, SO_RCVBUFFORCE, SO_RCVBUF, buffer_bytes);
  set_buffer(d->fd, SO_SNDBUFFORCE, SO_SNDBUF, buffer_bytes);
  if (bind(d->fd, &a.any, length) != 0) goto failed;
  if (getsockname(d->fd, &a.any, &length) != 0) goto failed;
  d->port = ntohs(d->is_ipv6 ? a.v6.sin6_port : a.v4.sin_port);
  d->scope = d->is_ipv6 ? a.v6.sin6_scope_id : 0;
  if (d->is_ipv6) memcpy(d->address, &a.v6.sin6_addr, 16);
  else memcpy(d->address, &a.v4.sin_addr, 4);
  d->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (d->wake_fd < 0) goto failed;
  *out = d;
  return 0;
failed:
  error = errno;
  datagram_close(d);
  return error;
}

void datagram_close(datagram *d) {
  if (d->fd >= 0) close(d->fd);
  if (d->wake_fd >= 0) close(d->wake_fd);
  free(d);
}

int datagram_port(datagram *d) { return d->port; }

int datagram_buffer(datagram *d) {
  int bytes = 0;
  socklen_t length = sizeof bytes;
  getsockopt(d->fd, SOL_SOCKET, SO_RCVBUF, &bytes, &length);
  return bytes;
}

int datagram_address(datagram *d, uint8_t *out) {
  int n = d->is_ipv6 ? 16 : 4;
  memcpy(out, d->address, (size_t)n);
  return n;
}

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

/* The ICRC of a packet that came as number `index` of its message. */
static uint32_t received_icrc(datagram *d, const uint8_t *from, int port, const uint8_t *bytes, uint32_t length, unsigned index) {
  uint32_t crc = icrc_of(d->is_ipv6, from, d->address, port, d->port, index, bytes, length);
  if (d->is_ipv6 || index == 0) return crc;
  const uint8_t *at = bytes + length;
  uint32_t found = (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
  return crc == found ? crc : icrc_of(0, from, d->address, port, d->port, 0, bytes, length);
}

int datagram_receive(datagram *d, uint8_t *buffer, uint32_t *descriptors, int messages) {
  struct mmsghdr headers[DATAGRAM_MESSAGES];
  struct iovec vectors[DATAGRAM_MESSAGES];
  any_address from[DATAGRAM_MESSAGES];
  char control[DATAGRAM_MESSAGES][RECEIVE_CONTROL_BYTES];
  if (messages > DATAGRAM_MESSAGES) messages = DATAGRAM_MESSAGES;
  for (int i = 0; i < messages; i++) {
    vectors[i] = (struct iovec){buffer + (size_t)i * DATAGRAM_MESSAGE_BYTES, DATAGRAM_MESSAGE_BYTES};
    headers[i].msg_hdr = (struct msghdr){.msg_name = &from[i],
                                         .msg_namelen = sizeof from[i],
                                         .msg_iov = &vectors[i],
                                         .msg_iovlen = 1,
                                         .msg_control = control[i],
                                         .msg_controllen = RECEIVE_CONTROL_BYTES};
  }
  int n;
  /* Not by the C library: its call is a cancellation point, which costs as much as asking an empty socket. */
  do n = (int)syscall(SYS_recvmmsg, d->fd, headers, (unsigned)messages, MSG_DONTWAIT, NULL);
  while (n < 0 && errno == EINTR);
  if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
  int packets = 0;
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
      w[8] = (uint32_t)i * DATAGRAM_MESSAGE_BYTES + at;
      if (usable) {
        w[0] = length;
        w[2] = received_icrc(d, address, port, buffer + w[8], length - ICRC_BYTES, k);
      }
      at += length;
    }
  }
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
  return *(const uint8_t *)(w + 4) == 127 || memcmp(w + 4, d->address, 4) == 0;
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
      uint32_t crc = icrc_of(d->is_ipv6, d->address, (uint8_t *)(w + 4), d->port, (int)w[1], (unsigned)k, b, length);
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
    int n = (int)syscall(SYS_sendmmsg, d->fd, messages + m, (unsigned)(used - m), MSG_DONTWAIT);
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

int datagram_wait(datagram *d, double timeout_us, int for_packets) {
  struct pollfd p[2] = {{.fd = for_packets ? d->fd : -1, .events = POLLIN}, {.fd = d->wake_fd, .events = POLLIN}};
  struct timespec t = {.tv_sec = (time_t)(timeout_us / 1e6), .tv_nsec = (long)((timeout_us - 1e6 * (double)(time_t)(timeout_us / 1e6)) * 1e3)};
  if (ppoll(p, 2, timeout_us < 0 ? NULL : &t, NULL) <= 0) return 0;
  if (p[1].revents) {
    uint64_t drained;
    while (read(d->wake_fd, &drained, sizeof drained) < 0 && errno == EINTR) {
    }
  }
  return p[0].revents != 0;
}

void datagram_wake(datagram *d) {
  uint64_t one = 1;
  while (write(d->wake_fd, &one, sizeof one) < 0 && errno == EINTR) {
  }
}
