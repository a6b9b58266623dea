/*
 * What the two files of datagram.h share: datagram.c makes sockets and sleeps, datagram-packets.c moves packets.
 */
#ifndef VERBENA_DATAGRAM_PARTS_H
#define VERBENA_DATAGRAM_PARTS_H

#include <netinet/in.h>

#include "datagram.h"
#include "identities.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef SOL_UDP
#define SOL_UDP 17
#endif

enum { FLOWS = 64 };

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

/* A socket for what goes to one end alone: the kernel has looked the way up, and its port tells ways through a network apart. fd 0: none is made. */
typedef struct flow {
  int fd, port;
  uint32_t to[5];
} flow;

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
  flow flows[FLOWS];
};

/* Whether the identification of a packet can be known; the first one that is asked for opens the socket that tells. */
int datagram_identifies(datagram *d);
/* A socket at a port of the upper quarter, connected to an end. Returns it, or -1. */
int datagram_connect(datagram *d, const any_address *to, int *port);

#endif
