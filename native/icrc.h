/*
 * The CRC of the invariant CRC: CRC-32 as in IEEE 802.3, with the processor's instructions where it has some. Which bytes it covers is told
 * by src/verbs/transport/icrc.ts; here it is computed for one packet and the addresses it travels between.
 */
#ifndef VERBENA_ICRC_H
#define VERBENA_ICRC_H

#include <stddef.h>
#include <stdint.h>

/* Continues a CRC register: start with 0xffffffff, end with a bitwise not. */
uint32_t icrc_update(uint32_t reg, const uint8_t *bytes, size_t length);
/* The same without special instructions, to test against. */
uint32_t icrc_update_plain(uint32_t reg, const uint8_t *bytes, size_t length);

/*
 * The ICRC of a packet: bytes from the BTH to the padding, without the four of the ICRC itself. Addresses have 4 bytes (is_ipv6 0) or 16.
 * identification: of the IPv4 header. length is at least 12.
 */
uint32_t icrc_of(int is_ipv6, const uint8_t *source, const uint8_t *destination, int source_port, int destination_port, unsigned identification,
                 const uint8_t *bytes, size_t length);

#endif
