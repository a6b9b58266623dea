#include "icrc.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#endif

#define POLYNOMIAL 0xedb88320u
/* Of a packet that has no more after its BTH, header and packet are taken in one piece: two short ones take longer. */
enum { SHORT = 64 };

/* table[k][b] is byte b followed by k zero bytes. */
static uint32_t table[8][256];

__attribute__((constructor)) static void build_table(void) {
  for (uint32_t n = 0; n < 256; n++) {
    uint32_t c = n;
    for (int bit = 0; bit < 8; bit++) c = c & 1 ? (c >> 1) ^ POLYNOMIAL : c >> 1;
    table[0][n] = c;
  }
  for (int k = 1; k < 8; k++)
    for (uint32_t n = 0; n < 256; n++) table[k][n] = (table[k - 1][n] >> 8) ^ table[0][table[k - 1][n] & 255];
}

uint32_t icrc_update_plain(uint32_t reg, const uint8_t *b, size_t length) {
  for (; length >= 8; b += 8, length -= 8) {
    uint32_t x = reg ^ ((uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24);
    reg = table[7][x & 255] ^ table[6][(x >> 8) & 255] ^ table[5][(x >> 16) & 255] ^ table[4][x >> 24] ^ table[3][b[4]] ^ table[2][b[5]] ^
          table[1][b[6]] ^ table[0][b[7]];
  }
  if (length >= 4) {
    uint32_t x = reg ^ ((uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24);
    reg = table[3][x & 255] ^ table[2][(x >> 8) & 255] ^ table[1][(x >> 16) & 255] ^ table[0][x >> 24];
    b += 4;
    length -= 4;
  }
  while (length--) reg = (reg >> 8) ^ table[0][(reg ^ *b++) & 255];
  return reg;
}

#if defined(__x86_64__)
/*
 * Carry-less multiplication, 64 bytes a step: four lanes of 128 bits are each moved 512 bits on and meet the next 64 bytes, then the lanes
 * fold into one, 128 bits at a time. The constants are powers of x modulo the polynomial, in the reflected order, one for each half of a
 * lane: fold_constants computes them as x^(distance + 64) and x^distance. What is left is 16 bytes whose CRC is the whole one's.
 */
static __m128i fold_by_512, fold_by_128;

/* x^n modulo the polynomial; bit 31 is x^0. */
static uint32_t power(unsigned n) {
  uint32_t p = 0x80000000u;
  while (n--) p = p & 1 ? (p >> 1) ^ POLYNOMIAL : p >> 1;
  return p;
}

/* For the low half (which is earlier in the message) the distance is 64 more; the shift by one is the reflection's. */
static __m128i fold_constants(unsigned bits) {
  return _mm_set_epi64x((long long)((uint64_t)power(bits - 32) << 1), (long long)((uint64_t)power(bits + 32) << 1));
}

__attribute__((constructor)) static void build_constants(void) {
  fold_by_512 = fold_constants(512);
  fold_by_128 = fold_constants(128);
}

__attribute__((target("pclmul,sse4.1"))) static inline __m128i fold(__m128i lane, __m128i by, __m128i next) {
  __m128i low = _mm_clmulepi64_si128(lane, by, 0x00), high = _mm_clmulepi64_si128(lane, by, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

__attribute__((target("pclmul,sse4.1"))) static uint32_t update_fast(uint32_t reg, const uint8_t *b, size_t length) {
  const __m128i *p = (const __m128i *)b;
  __m128i a0 = _mm_xor_si128(_mm_loadu_si128(p), _mm_cvtsi32_si128((int)reg));
  if (length < 128) {
    p++;
    length -= 16;
  } else {
    __m128i a1 = _mm_loadu_si128(p + 1), a2 = _mm_loadu_si128(p + 2), a3 = _mm_loadu_si128(p + 3);
    for (p += 4, length -= 64; length >= 64; p += 4, length -= 64) {
      a0 = fold(a0, fold_by_512, _mm_loadu_si128(p));
      a1 = fold(a1, fold_by_512, _mm_loadu_si128(p + 1));
      a2 = fold(a2, fold_by_512, _mm_loadu_si128(p + 2));
      a3 = fold(a3, fold_by_512, _mm_loadu_si128(p + 3));
    }
    a0 = fold(fold(fold(a0, fold_by_128, a1), fold_by_128, a2), fold_by_128, a3);
  }
  for (; length >= 16; p++, length -= 16) a0 = fold(a0, fold_by_128, _mm_loadu_si128(p));
  uint8_t rest[16];
  _mm_storeu_si128((__m128i *)rest, a0);
  return icrc_update_plain(icrc_update_plain(0, rest, 16), (const uint8_t *)p, length);
}

static int has_fast(void) { return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1"); }
#elif defined(__aarch64__)
__attribute__((target("+crc"))) static uint32_t update_fast(uint32_t reg, const uint8_t *b, size_t length) {
  for (; length >= 8; b += 8, length -= 8) {
    uint64_t word;
    memcpy(&word, b, 8);
    reg = __crc32d(reg, word);
  }
  while (length--) reg = __crc32b(reg, *b++);
  return reg;
}

static int has_fast(void) { return (getauxval(AT_HWCAP) & (1 << 7 /* HWCAP_CRC32 */)) != 0; }
#else
static uint32_t update_fast(uint32_t reg, const uint8_t *b, size_t length) { return icrc_update_plain(reg, b, length); }
static int has_fast(void) { return 0; }
#endif

uint32_t icrc_update(uint32_t reg, const uint8_t *bytes, size_t length) {
  static int fast = -1;
  if (fast < 0) fast = has_fast();
  return fast && length >= 16 ? update_fast(reg, bytes, length) : icrc_update_plain(reg, bytes, length);
}

uint32_t icrc_of(int is_ipv6, const uint8_t *source, const uint8_t *destination, int source_port, int destination_port, unsigned identification,
                 const uint8_t *bytes, size_t length) {
  uint8_t h[8 + 40 + 8 + 12 + SHORT];
  size_t udp_length = 8 + length + 4, at = 8;
  memset(h, 0xff, 8);
  if (is_ipv6) {
    const uint8_t fixed[8] = {0x6f, 0xff, 0xff, 0xff, (uint8_t)(udp_length >> 8), (uint8_t)udp_length, 17, 0xff};
    memcpy(h + at, fixed, 8);
    memcpy(h + at + 8, source, 16);
    memcpy(h + at + 24, destination, 16);
    at += 40;
  } else {
    size_t total = udp_length + 20;
    const uint8_t fixed[12] = {0x45, 0xff, (uint8_t)(total >> 8), (uint8_t)total, (uint8_t)(identification >> 8), (uint8_t)identification,
                               0x40, 0, 0xff, 17, 0xff, 0xff};
    memcpy(h + at, fixed, 12);
    memcpy(h + at + 12, source, 4);
    memcpy(h + at + 16, destination, 4);
    at += 20;
  }
  const uint8_t udp[8] = {(uint8_t)(source_port >> 8), (uint8_t)source_port, (uint8_t)(destination_port >> 8), (uint8_t)destination_port,
                          (uint8_t)(udp_length >> 8), (uint8_t)udp_length,  0xff, 0xff};
  memcpy(h + at, udp, 8);
  memcpy(h + at + 8, bytes, 12);
  h[at + 8 + 4] = 0xff;
  size_t first = length - 12 <= SHORT ? length - 12 : 0;
  memcpy(h + at + 20, bytes + 12, first);
  uint32_t reg = icrc_update(0xffffffffu, h, at + 20 + first);
  return first + 12 == length ? ~reg : ~icrc_update(reg, bytes + 12 + first, length - 12 - first);
}
