/* Sockets for RoCEv2: batches, the ICRC on both ways, waiting and waking; the CRC itself. */
#define _GNU_SOURCE
#include "datagram.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#include "check.h"
#include "icrc.h"

typedef struct batch {
  uint8_t slots[DATAGRAM_BATCH * DATAGRAM_SLOT];
  uint32_t descriptors[DATAGRAM_BATCH * DATAGRAM_WORDS];
} batch;

static batch out, in;

static datagram *open_on(const char *address) {
  datagram *d;
  CHECK(datagram_open(NULL, address, 0, 1 << 20, &d) == 0);
  return d;
}

static void prepare(int i, datagram *to, uint32_t length, uint8_t seed) {
  uint32_t *w = out.descriptors + i * DATAGRAM_WORDS;
  memset(w, 0, DATAGRAM_WORDS * sizeof *w);
  w[0] = length;
  w[1] = (uint32_t)datagram_port(to);
  datagram_address(to, (uint8_t *)(w + 4));
  for (uint32_t k = 0; k < length; k++) out.slots[(size_t)i * DATAGRAM_SLOT + k] = (uint8_t)(seed + 31 * k);
}

static uint32_t stored(const batch *b, int i) {
  const uint8_t *p = b->slots + (size_t)i * DATAGRAM_SLOT + b->descriptors[i * DATAGRAM_WORDS] - 4;
  return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint8_t messages[DATAGRAM_MESSAGES * DATAGRAM_MESSAGE_BYTES];
static uint32_t found[DATAGRAM_PACKETS * DATAGRAM_WORDS];

/* Packets into the slots of `in`, as they came. */
static int receive_all(datagram *d, int count) {
  int n = 0;
  while (n < count) {
    datagram_wait(d, PATIENCE_MS * 1000.0);
    int more = datagram_receive(d, messages, found, DATAGRAM_MESSAGES);
    CHECK(more > 0 && n + more <= DATAGRAM_BATCH);
    for (int i = 0; i < more; i++, n++) {
      const uint32_t *w = found + i * DATAGRAM_WORDS;
      memcpy(in.descriptors + n * DATAGRAM_WORDS, w, DATAGRAM_WORDS * sizeof *w);
      memcpy(in.slots + (size_t)n * DATAGRAM_SLOT, messages + w[8], w[0]);
    }
  }
  return n;
}

static void the_crc_is_the_one_of_zlib(void) {
  CHECK(~icrc_update(0xffffffffu, (const uint8_t *)"123456789", 9) == 0xcbf43926u);
}

static void the_fast_crc_agrees_with_the_plain_one(void) {
  static uint8_t bytes[5000];
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 2654435761u >> 13);
  for (size_t start = 0; start < 17; start += 3)
    for (size_t length = 0; length < 4900; length += length < 300 ? 1 : 97)
      CHECK(icrc_update(0x12345678u + (uint32_t)length, bytes + start, length) ==
            icrc_update_plain(0x12345678u + (uint32_t)length, bytes + start, length));
}

static void a_batch(const char *address) {
  datagram *a = open_on(address), *b = open_on(address);
  CHECK(datagram_port(a) != datagram_port(b) && datagram_buffer(a) >= 1 << 16);
  /* Three that go as one message, with a shorter one at its end; then each by itself. */
  const uint32_t lengths[] = {1040, 1040, 1040, 12, 16, 268, 1040, 4112, 4160};
  int count = (int)(sizeof lengths / sizeof lengths[0]), error;
  for (int i = 0; i < count; i++) prepare(i, b, lengths[i], (uint8_t)i);
  CHECK(datagram_send(a, out.slots, out.descriptors, count, &error) == count && error == 0);
  CHECK(receive_all(b, count) == count);
  for (int i = 0; i < count; i++) {
    const uint32_t *w = in.descriptors + i * DATAGRAM_WORDS;
    CHECK(w[0] == lengths[i] + 4);
    CHECK(w[1] == (uint32_t)datagram_port(a));
    CHECK(memcmp(in.slots + (size_t)i * DATAGRAM_SLOT, out.slots + (size_t)i * DATAGRAM_SLOT, lengths[i]) == 0);
    CHECK(w[2] == stored(&in, i)); /* what the sender sealed is what the receiver computes */
  }
  CHECK(datagram_receive(b, messages, found, DATAGRAM_MESSAGES) == 0);
  datagram_close(a);
  datagram_close(b);
}

static void batches_travel_over_ipv4_with_a_right_icrc(void) { a_batch("127.0.0.1"); }
static void batches_travel_over_ipv6_with_a_right_icrc(void) {
  datagram *d;
  if (datagram_open(NULL, "::1", 0, 1 << 16, &d) != 0) {
    printf("  (no IPv6 here)\n");
    return;
  }
  datagram_close(d);
  a_batch("::1");
}

static void a_full_batch_goes_and_no_more(void) {
  datagram *a = open_on("127.0.0.1"), *b = open_on("127.0.0.1");
  int error;
  for (int i = 0; i < DATAGRAM_BATCH; i++) prepare(i, b, 64, (uint8_t)i);
  CHECK(datagram_send(a, out.slots, out.descriptors, DATAGRAM_BATCH + 5, &error) == DATAGRAM_BATCH);
  CHECK(receive_all(b, DATAGRAM_BATCH) == DATAGRAM_BATCH);
  datagram_close(a);
  datagram_close(b);
}

static void packets_that_are_none_have_length_0(void) {
  datagram *a = open_on("127.0.0.1"), *b = open_on("127.0.0.1");
  int error;
  prepare(0, b, 4, 1); /* too short to send */
  CHECK(datagram_send(a, out.slots, out.descriptors, 1, &error) == 0 && error == EINVAL);
  prepare(0, b, 20, 1);
  prepare(1, b, DATAGRAM_SLOT, 1); /* no room for the ICRC */
  CHECK(datagram_send(a, out.slots, out.descriptors, 2, &error) == 1 && error == EINVAL);
  CHECK(receive_all(b, 1) == 1);
  CHECK(in.descriptors[0] == 24);
  datagram_close(a);
  datagram_close(b);
}

static void a_port_is_taken_once(void) {
  datagram *a = open_on("127.0.0.1"), *b;
  CHECK(datagram_open(NULL, "127.0.0.1", datagram_port(a), 1 << 16, &b) == EADDRINUSE);
  CHECK(datagram_open(NULL, "no address", 0, 1 << 16, &b) == EINVAL);
  datagram_close(a);
}

static void *wake_later(void *d) {
  poll(NULL, 0, 20);
  datagram_wake(d);
  return NULL;
}

static void a_wait_ends_by_time_by_a_wake_and_by_a_wake_before_it(void) {
  datagram *d = open_on("127.0.0.1");
  double start = now_s();
  datagram_wait(d, 5000);
  CHECK(now_s() - start >= 0.0049);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, wake_later, d) == 0);
  start = now_s();
  datagram_wait(d, -1);
  CHECK(now_s() - start < PATIENCE_MS / 1000.0);
  pthread_join(thread, NULL);
  datagram_wake(d);
  datagram_wake(d);
  datagram_wait(d, -1);
  start = now_s();
  datagram_wait(d, 2000); /* both wakes were taken by one wait */
  CHECK(now_s() - start >= 0.0019);
  datagram_close(d);
}

static int32_t beats;

static void *beat_for_a_while(void *d) {
  for (int i = 0; i < 200; i++) {
    __atomic_add_fetch(&beats, 1, __ATOMIC_RELAXED);
    poll(NULL, 0, 1);
  }
  return d;
}

static void a_watch_lasts_while_the_heart_beats_or_until_it_is_woken(void) {
  datagram *d = open_on("127.0.0.1");
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, beat_for_a_while, NULL) == 0);
  CHECK(datagram_watch(d, &beats, 500e3, PATIENCE_MS * 1000.0) == 1);
  pthread_join(thread, NULL);
  CHECK(beats == 200);
  datagram_wake(d);
  CHECK(datagram_watch(d, &beats, 500e3, PATIENCE_MS * 1000.0) == 0);
  CHECK(datagram_watch(d, &beats, 500e3, 0) == 0);
  datagram_close(d);
}

static void a_group_is_reached_while_one_is_in_it(void) {
  datagram *a = open_on("127.0.0.1"), *b = open_on("127.0.0.1"), *c = open_on("127.0.0.1");
  int error, before = open_files(), port = 20000 + (int)(now_s() * 1000) % 10000;
  CHECK(datagram_join(b, "239.77.1.2", port) == 1 && datagram_join(b, "239.77.1.3", port) == 2);
  CHECK(datagram_join(c, "239.77.1.3", port) == 1);
  CHECK(datagram_join(b, "::1", port) == -EINVAL);
  prepare(0, b, 64, 1);
  prepare(1, b, 68, 2);
  for (int i = 0; i < 2; i++) {
    const uint8_t group[4] = {239, 77, 1, (uint8_t)(2 + i)};
    out.descriptors[i * DATAGRAM_WORDS + 1] = (uint32_t)port;
    memcpy(out.descriptors + i * DATAGRAM_WORDS + 4, group, 4);
  }
  CHECK(datagram_send(a, out.slots, out.descriptors, 2, &error) == 2 && error == 0);
  CHECK(receive_all(b, 2) == 2);
  for (int i = 0; i < 2; i++) {
    const uint32_t *w = in.descriptors + i * DATAGRAM_WORDS;
    CHECK(w[0] == 68 + 4 * w[10] - 4 && w[2] == stored(&in, i) && w[1] == (uint32_t)datagram_port(a));
  }
  CHECK(receive_all(c, 1) == 1 && in.descriptors[10] == 1 && in.descriptors[0] == 72);
  datagram_leave(b, 1);
  CHECK(datagram_send(a, out.slots, out.descriptors, 2, &error) == 2);
  CHECK(receive_all(b, 1) == 1 && in.descriptors[10] == 2);
  CHECK(datagram_join(b, "239.77.1.4", port) == 1);
  datagram_leave(b, 1);
  datagram_leave(b, 2);
  datagram_leave(c, 1);
  CHECK(open_files() == before);
  datagram_close(a);
  datagram_close(b);
  datagram_close(c);
}

/* Sends a packet whose IPv4 header has an identification and whose ICRC was made for another one, or the same. */
static void send_identified(int raw, datagram *to, unsigned identification, unsigned sealed_for, uint8_t seed) {
  enum { LENGTH = 40, TOTAL = 20 + 8 + LENGTH + 4, FROM = 0xc001 };
  struct {
    struct iphdr ip;
    uint8_t udp[8], bytes[LENGTH + 4];
  } p;
  const uint8_t loopback[4] = {127, 0, 0, 1};
  int port = datagram_port(to);
  memset(&p, 0, sizeof p);
  p.ip = (struct iphdr){.version = 4, .ihl = 5, .tot_len = htons(TOTAL), .id = htons((uint16_t)identification), .frag_off = htons(0x4000), .ttl = 64, .protocol = 17};
  memcpy(&p.ip.saddr, loopback, 4);
  memcpy(&p.ip.daddr, loopback, 4);
  const uint8_t udp[8] = {FROM >> 8, FROM & 255, (uint8_t)(port >> 8), (uint8_t)port, 0, 8 + LENGTH + 4, 0, 0};
  memcpy(p.udp, udp, 8);
  for (int k = 0; k < LENGTH; k++) p.bytes[k] = (uint8_t)(seed + k);
  uint32_t crc = icrc_of(0, loopback, loopback, FROM, port, sealed_for, p.bytes, LENGTH);
  for (int k = 0; k < 4; k++) p.bytes[LENGTH + k] = (uint8_t)(crc >> (8 * k));
  struct sockaddr_in at = {.sin_family = AF_INET};
  memcpy(&at.sin_addr, loopback, 4);
  CHECK(sendto(raw, &p, sizeof p, 0, (struct sockaddr *)&at, sizeof at) == sizeof p);
}

static void an_identification_is_known_to_who_may_ask_for_it(void) {
  int raw = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
  if (raw < 0) {
    printf("  (no right to raw sockets here)\n");
    return;
  }
  int before = open_files();
  datagram *d = open_on("127.0.0.1");
  send_identified(raw, d, 7, 7, 1);
  CHECK(receive_all(d, 1) == 1 && in.descriptors[9] == 0); /* it starts to ask */
  for (unsigned i = 0; i < 200; i++) send_identified(raw, d, 1000 + i, 1000 + i, (uint8_t)i);
  for (int got = 0; got < 200;) {
    int more = datagram_receive(d, messages, found, DATAGRAM_MESSAGES);
    CHECK(more >= 0);
    for (int i = 0; i < more; i++) CHECK(found[i * DATAGRAM_WORDS + 9] == 1);
    got += more;
  }
  send_identified(raw, d, 50, 51, 1); /* the linear check would let it pass */
  CHECK(receive_all(d, 1) == 1 && in.descriptors[9] == 1 && in.descriptors[2] != stored(&in, 0));
  send_identified(raw, d, 0, 0, 1);
  CHECK(receive_all(d, 1) == 1 && in.descriptors[9] == 0 && in.descriptors[2] == stored(&in, 0));
  datagram_close(d);
  CHECK(open_files() == before);
  close(raw);
}

static void a_socket_can_be_made_in_another_network_namespace(void) {
  datagram *d;
  int before = open_files();
  CHECK(datagram_open("/nonexistent", "127.0.0.1", 0, 1 << 16, &d) == ENOENT);
  int error = datagram_open("/proc/self/ns/net", "127.0.0.1", 0, 1 << 16, &d);
  CHECK(error == 0 || error == EPERM);
  if (error == 0) datagram_close(d);
  CHECK(open_files() == before);
}

static void closing_leaves_no_descriptor(void) {
  int before = open_files();
  datagram *d = open_on("127.0.0.1");
  datagram_close(d);
  CHECK(open_files() == before);
}

int main(void) {
  RUN(the_crc_is_the_one_of_zlib);
  RUN(the_fast_crc_agrees_with_the_plain_one);
  RUN(batches_travel_over_ipv4_with_a_right_icrc);
  RUN(batches_travel_over_ipv6_with_a_right_icrc);
  RUN(a_full_batch_goes_and_no_more);
  RUN(packets_that_are_none_have_length_0);
  RUN(a_port_is_taken_once);
  RUN(a_wait_ends_by_time_by_a_wake_and_by_a_wake_before_it);
  RUN(a_watch_lasts_while_the_heart_beats_or_until_it_is_woken);
  RUN(a_group_is_reached_while_one_is_in_it);
  RUN(an_identification_is_known_to_who_may_ask_for_it);
  RUN(a_socket_can_be_made_in_another_network_namespace);
  RUN(closing_leaves_no_descriptor);
  return 0;
}
