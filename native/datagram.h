/*
 * UDP sockets for RoCEv2: many packets a system call, and the ICRC, which binds a packet to the addresses it travels between.
 *
 * The socket is unconnected and forbids fragmentation, so that IPv4 packets leave with identification 0 and their ICRC can be computed (those of a connected one
 * leave with changing ones).
 *
 * A batch to be sent is an array of slots of DATAGRAM_SLOT bytes, one packet each, and an array of descriptors:
 *
 *   0 length of the packet   1 port of the other end   2 ICRC over the packet but its last four bytes   3 ECN bits   4..7 its address   8 where it is
 *   9 whether the ICRC was computed with the packet's own identification, known from a raw socket (identities.h)   10 group that it was sent to, or 0
 *
 * Sending reads lengths (BTH to padding), ports and addresses, and writes the ICRC behind the packet. Receiving fills all of a descriptor; its packets
 * lie in a buffer of DATAGRAM_MESSAGES times DATAGRAM_MESSAGE_BYTES, several in one message.
 *
 * Packets of one length to one end, and a shorter one after them, are given to the kernel as one (UDP_SEGMENT), and taken from it as one (UDP_GRO). That
 * numbers the identifications of IPv4 0, 1, 2, ..., and the ICRC covers them: it is computed so. Who cuts such a message up is the kernel on this host, or
 * a NIC that may number otherwise: so IPv4 packets that leave the host go one by one. VERBENA_ROCE_JOIN=0 in the environment: all do, for captures.
 */
#ifndef VERBENA_DATAGRAM_H
#define VERBENA_DATAGRAM_H

#include <stdint.h>

enum {
  DATAGRAM_SLOT = 4608,
  DATAGRAM_BATCH = 64,
  DATAGRAM_WORDS = 12,
  DATAGRAM_MESSAGES = 16,
  DATAGRAM_MESSAGE_BYTES = 65536,
  /* Descriptors that receiving fills at most. */
  DATAGRAM_PACKETS = 1024,
  /* Groups at a time. */
  DATAGRAM_GROUPS = 32
};

typedef struct datagram datagram;

/*
 * Binds a socket. address: numeric text; port 0: the kernel's choice. buffer_bytes: what the kernel may queue; it gives what it allows.
 * network: a file that stands for a network namespace, where the socket is to be; NULL for the one of this thread. Returns 0 or an errno.
 */
int datagram_open(const char *network, const char *address, int port, int buffer_bytes, datagram **out);
void datagram_close(datagram *d);
int datagram_port(datagram *d);
/* Bytes the kernel queues for this socket, as it counts them. */
int datagram_buffer(datagram *d);
/* The address as 4 or 16 bytes; returns how many. */
int datagram_address(datagram *d, uint8_t *out);

/* Joins a multicast group: what is sent to it arrives here too. Returns its number, 1 to DATAGRAM_GROUPS, or -errno. */
int datagram_join(datagram *d, const char *group, int port);
void datagram_leave(datagram *d, int group);

/* Takes what is there, at most so many messages, without waiting. Returns how many packets, or -errno. One that is too long or short has length 0. */
int datagram_receive(datagram *d, uint8_t *buffer, uint32_t *descriptors, int messages);
/* Seals and sends. Returns how many the kernel took; fewer means that it had no room or refused the next one: *error says which. */
int datagram_send(datagram *d, uint8_t *slots, uint32_t *descriptors, int count, int *error);
/* Sleeps until a packet is there, somebody wakes it, or the time has passed; timeout_us below 0: no limit. Returns whether a packet is there. */
int datagram_wait(datagram *d, double timeout_us);
/*
 * Sleeps while the number at `heartbeat` changes, which is looked at every look_us (less than a second); ends when it stands still, when somebody wakes
 * it, or after most_us. Returns whether it stands still.
 */
int datagram_watch(datagram *d, const int32_t *heartbeat, double look_us, double most_us);
/* Ends a wait or watch, now or the next one. Any thread. */
void datagram_wake(datagram *d);

#endif
