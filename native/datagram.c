#define _GNU_SOURCE
#include "datagram.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
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
#include "identities.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif
#ifndef SOL_UDP
#define SOL_UDP 17
#endif

enum { ECN_CAPABLE = 2, MULTICAST_HOPS = 64, BTH_BYTES = 12, ICRC_BYTES = 4, RECEIVE_CONTROL_BYTES = 2 * CMSG_SPACE(sizeof(int)), MAX_JOINED_BYTES = 65000 };

typedef union any_address {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
} any_address;

/* Where packets arrive: at the device's own address, or at that of a group, for which the kernel wants a socket of its own. */
typedef struct place {
  int fd, port;
  uint8_t address[16];
} place;

struct datagram {
  int wake_fd, is_ipv6;
  /* The device's own place, then those of groups; -1 as descriptor: left. */
  place places[1 + DATAGRAM_GROUPS];
  int place_count, buffer_bytes;
  char *network;
  unsigned interface;
  /* Made when a packet comes whose identification matters. */
  identities *identities;
  int may_identify;
  /* Several packets may be given to the kernel as one message. */
  int joins;
  uint32_t scope;
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

/* The number of the interface that has an IPv6 address, or 0. */
static unsigned interface_of(const any_address *a) {
  struct ifaddrs *list;
  unsigned found = 0;
  if (getifaddrs(&list) != 0) return 0;
  for (struct ifaddrs *i = list; i && !found; i = i->ifa_next) {
    if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET6) continue;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)i->ifa_addr;
    if (memcmp(&v6->sin6_addr, &a->v6.sin6_addr, 16) == 0) found = if_nametoindex(i->ifa_name);
  }
  freeifaddrs(list);
  return found;
}

static int socket_here(int family, int type, int protocol, const any_address *a, unsigned *interface) {
  if (interface && family == AF_INET6) *interface = a->v6.sin6_scope_id ? a->v6.sin6_scope_id : interface_of(a);
  return socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
}

/*
 * A socket belongs to the network namespace it was made in, whatever its thread does later. Returns a descriptor, or -1 with errno. interface: becomes
 * the number of the one that has the address, if it is of IPv6; may be NULL.
 */
static int socket_in(const char *network, int family, int type, int protocol, const any_address *a, unsigned *interface) {
  if (!network) return socket_here(family, type, protocol, a, interface);
  int here = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC), there = open(network, O_RDONLY | O_CLOEXEC), fd = -1;
  int error = here < 0 || there < 0 || setns(there, CLONE_NEWNET) != 0 ? errno : 0;
  if (!error) {
    fd = socket_here(family, type, protocol, a, interface);
    error = errno;
    if (setns(here, CLONE_NEWNET) != 0) abort();
  }
  if (here >= 0) close(here);
  if (there >= 0) close(there);
  errno = error;
  return fd;
}

/* Makes the socket of a place and binds it: port 0 is the kernel's choice. Returns 0 or an errno. */
static int open_place(datagram *d, const any_address *own, any_address *at, socklen_t length, int is_group) {
  place *p = &d->places[d->place_count];
  p->fd = socket_in(d->network, at->any.sa_family, SOCK_DGRAM, 0, own, &d->interface);
  if (p->fd < 0) return errno;
  if (d->is_ipv6) {
    if (set_int(p->fd, IPPROTO_IPV6, IPV6_V6ONLY, 1) != 0) goto failed;
    if (set_int(p->fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO) != 0) goto failed;
    set_int(p->fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
    set_int(p->fd, IPPROTO_IPV6, IPV6_TCLASS, ECN_CAPABLE);
    set_int(p->fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, (int)d->interface);
    set_int(p->fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, MULTICAST_HOPS);
  } else {
    if (set_int(p->fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO) != 0) goto failed;
    set_int(p->fd, IPPROTO_IP, IP_RECVTOS, 1);
    set_int(p->fd, IPPROTO_IP, IP_TOS, ECN_CAPABLE);
    setsockopt(p->fd, IPPROTO_IP, IP_MULTICAST_IF, &own->v4.sin_addr, sizeof own->v4.sin_addr);
    set_int(p->fd, IPPROTO_IP, IP_MULTICAST_TTL, MULTICAST_HOPS);
  }
  if (d->joins) d->joins = set_int(p->fd, SOL_UDP, UDP_GRO, 1) == 0;
  set_buffer(p->fd, SO_RCVBUFFORCE, SO_RCVBUF, d->buffer_bytes);
  set_buffer(p->fd, SO_SNDBUFFORCE, SO_SNDBUF, d->buffer_bytes);
  if (is_group) {
    if (set_int(p->fd, SOL_SOCKET, SO_REUSEADDR, 1) != 0) goto failed;
    /* Only by the interface that this device is on. */
    if (d->is_ipv6) set_int(p->fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
    else set_int(p->fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
  }
  if (bind(p->fd, &at->any, length) != 0) goto failed;
  if (getsockname(p->fd, &at->any, &length) != 0) goto failed;
  p->port = ntohs(d->is_ipv6 ? at->v6.sin6_port : at->v4.sin_port);
  if (d->is_ipv6) memcpy(p->address, &at->v6.sin6_addr, 16);
  else memcpy(p->address, &at->v4.sin_addr, 4);
  d->place_count++;
  return 0;
failed:;
  int error = errno;
  close(p->fd);
  p->fd = -1;
  return error;
}

int datagram_open(const char *network, const char *address, int port, int buffer_bytes, datagram **out) {
  any_address a;
  socklen_t length;
  int error = parse(address, port, &a, &length);
  if (error) return error;
  datagram *d = calloc(1, sizeof *d);
  if (!d) return ENOMEM;
  const char *join = getenv("VERBENA_ROCE_JOIN");
  d->is_ipv6 = a.any.sa_family == AF_INET6;
  d->joins = !(join && strcmp(join, "0") == 0);
  d->buffer_bytes = buffer_bytes;
  d->may_identify = !d->is_ipv6;
  d->network = network ? strdup(network) : NULL;
  any_address own = a;
  error = network && !d->network ? ENOMEM : open_place(d, &own, &a, length, 0);
  d->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (!error && d->wake_fd < 0) error = errno;
  if (error) {
    datagram_close(d);
    return error;
  }
  d->scope = d->is_ipv6 ? a.v6.sin6_scope_id : 0;
  *out = d;
  return 0;
}

void datagram_close(datagram *d) {
  for (int i = 0; i < d->place_count; i++)
    if (d->places[i].fd >= 0) close(d->places[i].fd);
  if (d->wake_fd >= 0) close(d->wake_fd);
  identities_close(d->identities);
  free(d->network);
  free(d);
}

/* The device's own address as the kernel takes it. */
static void own_address(datagram *d, any_address *own) {
  memset(own, 0, sizeof *own);
  if (d->is_ipv6) {
    own->v6.sin6_scope_id = d->scope;
    memcpy(&own->v6.sin6_addr, d->places[0].address, 16);
  } else {
    memcpy(&own->v4.sin_addr, d->places[0].address, 4);
  }
}

int datagram_join(datagram *d, const char *group, int port) {
  any_address own, at;
  socklen_t length;
  int error = parse(group, port, &at, &length);
  if (error || (at.any.sa_family == AF_INET6) != d->is_ipv6) return -EINVAL;
  if (d->is_ipv6) at.v6.sin6_scope_id = d->interface;
  own_address(d, &own);
  int index = 1, count = d->place_count;
  while (index < count && d->places[index].fd >= 0) index++;
  if (index > DATAGRAM_GROUPS) return -ENOBUFS;
  d->place_count = index; /* where the next place is made */
  error = open_place(d, &own, &at, length, 1);
  d->place_count = error || index < count ? count : index + 1;
  if (error) return -error;
  place *p = &d->places[index];
  struct ipv6_mreq v6 = {.ipv6mr_multiaddr = at.v6.sin6_addr, .ipv6mr_interface = d->interface};
  struct ip_mreq v4 = {.imr_multiaddr = at.v4.sin_addr, .imr_interface = own.v4.sin_addr};
  int failed = d->is_ipv6 ? setsockopt(p->fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &v6, sizeof v6) : setsockopt(p->fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &v4, sizeof v4);
  if (!failed) return index;
  error = errno;
  datagram_leave(d, index);
  return -error;
}

void datagram_leave(datagram *d, int index) {
  if (index < 1 || index >= d->place_count || d->places[index].fd < 0) return;
  close(d->places[index].fd);
  d->places[index].fd = -1;
}

int datagram_port(datagram *d) { return d->places[0].port; }

int datagram_buffer(datagram *d) {
  int bytes = 0;
  socklen_t length = sizeof bytes;
  getsockopt(d->places[0].fd, SOL_SOCKET, SO_RCVBUF, &bytes, &length);
  return bytes;
}

int datagram_address(datagram *d, uint8_t *out) {
  int n = d->is_ipv6 ? 16 : 4;
  memcpy(out, d->places[0].address, (size_t)n);
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

/* Whether the identification of a packet can be known; the first one that is asked for opens the socket that tells. */
static int identifies(datagram *d) {
  if (d->identities || !d->may_identify) return d->may_identify;
  int fd = socket_in(d->network, AF_INET, SOCK_RAW, IPPROTO_UDP, NULL, NULL);
  if (fd >= 0) d->identities = identities_open(fd, d->places[0].address, d->places[0].port);
  d->may_identify = d->identities != NULL;
  return d->may_identify;
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
  if (crc == found || p != d->places || !identifies(d)) return crc;
  *is_known = (uint32_t)identities_icrc(d->identities, from, port, bytes, length, found, &crc);
  return crc;
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
  /* Not by the C library: its call is a cancellation point, which costs as much as asking an empty socket. */
  do n = (int)syscall(SYS_recvmmsg, p->fd, headers, (unsigned)(messages - first), MSG_DONTWAIT, NULL);
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
    int n = (int)syscall(SYS_sendmmsg, d->places[0].fd, messages + m, (unsigned)(used - m), MSG_DONTWAIT);
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
  struct pollfd p[2 + DATAGRAM_GROUPS] = {{.fd = d->wake_fd, .events = POLLIN}};
  struct timespec t = {.tv_sec = (time_t)(timeout_us / 1e6), .tv_nsec = (long)((timeout_us - 1e6 * (double)(time_t)(timeout_us / 1e6)) * 1e3)};
  int count = for_packets ? d->place_count : 0, ready = 0;
  for (int i = 0; i < count; i++) p[1 + i] = (struct pollfd){.fd = d->places[i].fd, .events = POLLIN};
  if (ppoll(p, (nfds_t)(1 + count), timeout_us < 0 ? NULL : &t, NULL) <= 0) return 0;
  if (p[0].revents) {
    uint64_t drained;
    while (read(d->wake_fd, &drained, sizeof drained) < 0 && errno == EINTR) {
    }
  }
  for (int i = 0; i < count; i++) ready |= p[1 + i].revents != 0;
  return ready;
}

void datagram_wake(datagram *d) {
  uint64_t one = 1;
  while (write(d->wake_fd, &one, sizeof one) < 0 && errno == EINTR) {
  }
}
