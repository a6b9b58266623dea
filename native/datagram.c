#define _GNU_SOURCE
#include "datagram-parts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif

enum { ECN_CAPABLE = 2, MULTICAST_HOPS = 64 };

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
  /* The loopback has no switch that marks packets, and to be told that there is none takes time. */
  int is_loopback = d->is_ipv6 ? IN6_IS_ADDR_LOOPBACK(&own->v6.sin6_addr) : ((const uint8_t *)&own->v4.sin_addr)[0] == 127;
  p->fd = socket_in(d->network, at->any.sa_family, SOCK_DGRAM, 0, own, &d->interface);
  if (p->fd < 0) return errno;
  if (d->is_ipv6) {
    if (set_int(p->fd, IPPROTO_IPV6, IPV6_V6ONLY, 1) != 0) goto failed;
    if (set_int(p->fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO) != 0) goto failed;
    set_int(p->fd, IPPROTO_IPV6, IPV6_TCLASS, ECN_CAPABLE);
    if (!is_loopback) set_int(p->fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
    set_int(p->fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, (int)d->interface);
    set_int(p->fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, MULTICAST_HOPS);
  } else {
    if (set_int(p->fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO) != 0) goto failed;
    set_int(p->fd, IPPROTO_IP, IP_TOS, ECN_CAPABLE);
    if (!is_loopback) set_int(p->fd, IPPROTO_IP, IP_RECVTOS, 1);
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

int datagram_identifies(datagram *d) {
  if (d->identities || !d->may_identify) return d->may_identify;
  int fd = socket_in(d->network, AF_INET, SOCK_RAW, IPPROTO_UDP, NULL, NULL);
  if (fd >= 0) d->identities = identities_open(fd, d->places[0].address, d->places[0].port);
  d->may_identify = d->identities != NULL;
  return d->may_identify;
}

static void drain(datagram *d) {
  uint64_t drained;
  while (read(d->wake_fd, &drained, sizeof drained) < 0 && errno == EINTR) {
  }
}

int datagram_wait(datagram *d, double timeout_us) {
  struct pollfd p[2 + DATAGRAM_GROUPS] = {{.fd = d->wake_fd, .events = POLLIN}};
  struct timespec t = {.tv_sec = (time_t)(timeout_us / 1e6), .tv_nsec = (long)((timeout_us - 1e6 * (double)(time_t)(timeout_us / 1e6)) * 1e3)};
  int count = d->place_count, ready = 0;
  for (int i = 0; i < count; i++) p[1 + i] = (struct pollfd){.fd = d->places[i].fd, .events = POLLIN};
  if (ppoll(p, (nfds_t)(1 + count), timeout_us < 0 ? NULL : &t, NULL) <= 0) return 0;
  if (p[0].revents) drain(d);
  for (int i = 0; i < count; i++) ready |= p[1 + i].revents != 0;
  return ready;
}

int datagram_watch(datagram *d, const int32_t *heartbeat, double look_us, double most_us) {
  struct pollfd p = {.fd = d->wake_fd, .events = POLLIN};
  struct timespec look = {.tv_nsec = (long)(look_us * 1e3)};
  for (double waited = 0; waited < most_us; waited += look_us) {
    int32_t seen = __atomic_load_n(heartbeat, __ATOMIC_RELAXED);
    if (ppoll(&p, 1, &look, NULL) != 0) {
      drain(d);
      return 0;
    }
    if (__atomic_load_n(heartbeat, __ATOMIC_RELAXED) == seen) return 1;
  }
  return 0;
}

void datagram_wake(datagram *d) {
  uint64_t one = 1;
  while (write(d->wake_fd, &one, sizeof one) < 0 && errno == EINTR) {
  }
}
