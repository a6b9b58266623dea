#define _GNU_SOURCE
#include "datagram.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "icrc.h"

enum { BTH_BYTES = 12, ICRC_BYTES = 4, CONTROL_BYTES = CMSG_SPACE(sizeof(int)) };

typedef union any_address {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
} any_address;

struct datagram {
  int fd, wake_fd, is_ipv6, port;
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

static uint32_t ecn_of(struct msghdr *m) {
  for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
    if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) return *CMSG_DATA(c) & 3;
    if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS) {
      int value;
      memcpy(&value, CMSG_DATA(c), sizeof value);
      return (uint32_t)value & 3;
    }
  }
  return 0;
}

int datagram_receive(datagram *d, uint8_t *slots, uint32_t *descriptors, int count) {
  struct mmsghdr messages[DATAGRAM_BATCH];
  struct iovec vectors[DATAGRAM_BATCH];
  any_address from[DATAGRAM_BATCH];
  char control[DATAGRAM_BATCH][CONTROL_BYTES];
  if (count > DATAGRAM_BATCH) count = DATAGRAM_BATCH;
  for (int i = 0; i < count; i++) {
    vectors[i] = (struct iovec){slots + (size_t)i * DATAGRAM_SLOT, DATAGRAM_SLOT};
    messages[i].msg_hdr = (struct msghdr){.msg_name = &from[i],
                                          .msg_namelen = sizeof from[i],
                                          .msg_iov = &vectors[i],
                                          .msg_iovlen = 1,
                                          .msg_control = control[i],
                                          .msg_controllen = CONTROL_BYTES};
  }
  int n;
  do n = recvmmsg(d->fd, messages, (unsigned)count, MSG_DONTWAIT, NULL);
  while (n < 0 && errno == EINTR);
  if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
  for (int i = 0; i < n; i++) {
    uint32_t *w = descriptors + (size_t)i * DATAGRAM_WORDS;
    struct msghdr *m = &messages[i].msg_hdr;
    uint32_t length = messages[i].msg_len;
    int usable = !(m->msg_flags & MSG_TRUNC) && length >= BTH_BYTES + ICRC_BYTES;
    memset(w, 0, DATAGRAM_WORDS * sizeof *w);
    const void *address = d->is_ipv6 ? (void *)&from[i].v6.sin6_addr : (void *)&from[i].v4.sin_addr;
    memcpy(w + 4, address, d->is_ipv6 ? 16 : 4);
    w[1] = ntohs(d->is_ipv6 ? from[i].v6.sin6_port : from[i].v4.sin_port);
    if (!usable) continue;
    w[0] = length;
    w[2] = icrc_of(d->is_ipv6, address, d->address, (int)w[1], d->port, vectors[i].iov_base, length - ICRC_BYTES);
    w[3] = ecn_of(m);
  }
  return n;
}

int datagram_send(datagram *d, uint8_t *slots, uint32_t *descriptors, int count, int *error) {
  struct mmsghdr messages[DATAGRAM_BATCH];
  struct iovec vectors[DATAGRAM_BATCH];
  any_address to[DATAGRAM_BATCH];
  int refused = 0;
  if (count > DATAGRAM_BATCH) count = DATAGRAM_BATCH;
  for (int i = 0; i < count; i++) {
    uint32_t *w = descriptors + (size_t)i * DATAGRAM_WORDS;
    uint8_t *b = slots + (size_t)i * DATAGRAM_SLOT;
    uint32_t length = w[0];
    memset(&to[i], 0, sizeof to[i]);
    if (d->is_ipv6) {
      to[i].v6.sin6_family = AF_INET6;
      to[i].v6.sin6_port = htons((uint16_t)w[1]);
      to[i].v6.sin6_scope_id = d->scope;
      memcpy(&to[i].v6.sin6_addr, w + 4, 16);
    } else {
      to[i].v4.sin_family = AF_INET;
      to[i].v4.sin_port = htons((uint16_t)w[1]);
      memcpy(&to[i].v4.sin_addr, w + 4, 4);
    }
    if (length < BTH_BYTES || length + ICRC_BYTES > DATAGRAM_SLOT) {
      count = i;
      refused = EINVAL;
      break;
    }
    uint32_t crc = icrc_of(d->is_ipv6, d->address, (uint8_t *)(w + 4), d->port, (int)w[1], b, length);
    for (int k = 0; k < 4; k++) b[length + (uint32_t)k] = (uint8_t)(crc >> (8 * k));
    vectors[i] = (struct iovec){b, length + ICRC_BYTES};
    messages[i].msg_hdr = (struct msghdr){.msg_name = &to[i],
                                          .msg_namelen = d->is_ipv6 ? sizeof to[i].v6 : sizeof to[i].v4,
                                          .msg_iov = &vectors[i],
                                          .msg_iovlen = 1};
  }
  int sent = 0;
  *error = refused;
  while (sent < count) {
    int n = sendmmsg(d->fd, messages + sent, (unsigned)(count - sent), MSG_DONTWAIT);
    if (n < 0) {
      if (errno == EINTR) continue;
      *error = errno;
      break;
    }
    sent += n;
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
