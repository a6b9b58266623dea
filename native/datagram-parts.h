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

/* Whether the identification of a packet can be known; the first one that is asked for opens the socket that tells. */
int datagram_identifies(datagram *d);

#endif
