/*
 * The IPv4 identifications of packets that a UDP socket has received, for the ICRC covers them and the socket does not show them.
 *
 *   packet ──> raw socket: the headers of packets whose identification is not 0, kept here      (takes CAP_NET_RAW)
 *          └─> UDP socket: its source and its BTH find them
 *
 * The kernel gives a packet to raw sockets first, so its headers are there when the packet is.
 */
#ifndef VERBENA_IDENTITIES_H
#define VERBENA_IDENTITIES_H

#include <stdint.h>

typedef struct identities identities;

/* Takes over a raw UDP socket of IPv4, also when it fails. Only packets to this address and port count. Returns NULL without memory or filter. */
identities *identities_open(int raw_fd, const uint8_t *address, int port);
void identities_close(identities *s);

/*
 * Whether the identification of a packet is known: bytes from the BTH to the padding. If so *icrc is the ICRC it must have; of several identifications,
 * as repeated packets have, one that makes it `found` counts.
 */
int identities_icrc(identities *s, const uint8_t *source, int port, const uint8_t *bytes, uint32_t length, uint32_t found, uint32_t *icrc);

#endif
