/*
 * Counting words: a table of distinct strings, their bytes in one growing store.
 *
 *   slots  [ hash, upper half | entry + 1 ]  open addressing            entries  { hash, offset, length, count }  in the order of appearance
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dataset.h"

typedef struct word {
  uint64_t hash, count;
  uint32_t length;
  size_t offset;
} word;

typedef struct slot {
  uint32_t tag, entry;
} slot;

struct words {
  slot *slots;
  size_t size, count, room;
  word *entries;
  uint8_t *store;
  size_t stored, store_room;
};

words *words_open(void) {
  words *w = calloc(1, sizeof *w);
  if (!w) return NULL;
  w->size = 1 << 12;
  w->slots = calloc(w->size, sizeof *w->slots);
  if (w->slots) return w;
  free(w);
  return NULL;
}

void words_close(words *w) {
  if (!w) return;
  free(w->slots);
  free(w->entries);
  free(w->store);
  free(w);
}

size_t words_count(const words *w) { return w->count; }

static inline uint64_t hash_of(const uint8_t *s, size_t length) {
  uint64_t h = length * 0x9e3779b97f4a7c15ull, v = 0;
  while (length >= 8) {
    memcpy(&v, s, 8);
    h = (h ^ v) * 0xd6e8feb86659fd93ull;
    h ^= h >> 32;
    s += 8;
    length -= 8;
  }
  v = 0;
  for (size_t i = 0; i < length; i++) v |= (uint64_t)s[i] << 8 * i;
  h = (h ^ v) * 0xd6e8feb86659fd93ull;
  h ^= h >> 29;
  h *= 0x9fb21c651e98df25ull;
  return h ^ h >> 32;
}

static int grow(words *w) {
  size_t size = w->size * 2;
  slot *slots = calloc(size, sizeof *slots);
  if (!slots) return ENOMEM;
  for (size_t e = 0; e < w->count; e++) {
    size_t at = w->entries[e].hash & (size - 1);
    while (slots[at].entry) at = (at + 1) & (size - 1);
    slots[at] = (slot){(uint32_t)(w->entries[e].hash >> 32), (uint32_t)e + 1};
  }
  free(w->slots);
  w->slots = slots;
  w->size = size;
  return 0;
}

static int add(words *w, const uint8_t *s, size_t length, uint64_t count) {
  const uint64_t h = hash_of(s, length);
  const uint32_t tag = (uint32_t)(h >> 32);
  size_t at = h & (w->size - 1);
  for (; w->slots[at].entry; at = (at + 1) & (w->size - 1)) {
    if (w->slots[at].tag != tag) continue;
    word *e = &w->entries[w->slots[at].entry - 1];
    if (e->length == length && memcmp(w->store + e->offset, s, length) == 0) {
      e->count += count;
      return 0;
    }
  }
  if (w->count == w->room) {
    size_t room = w->room ? w->room * 2 : 1024;
    word *entries = realloc(w->entries, room * sizeof *entries);
    if (!entries) return ENOMEM;
    w->entries = entries;
    w->room = room;
  }
  if (w->stored + length > w->store_room) {
    size_t room = w->store_room ? w->store_room * 2 : 1 << 16;
    while (room < w->stored + length) room *= 2;
    uint8_t *store = realloc(w->store, room);
    if (!store) return ENOMEM;
    w->store = store;
    w->store_room = room;
  }
  memcpy(w->store + w->stored, s, length);
  w->entries[w->count] = (word){h, count, (uint32_t)length, w->stored};
  w->stored += length;
  w->slots[at] = (slot){tag, (uint32_t)++w->count};
  return w->count * 2 > w->size ? grow(w) : 0;
}

int words_add_text(words *w, const uint8_t *text, size_t length) {
  const uint8_t *at = text, *end = text + length;
  while (at < end) {
    while (at < end && *at <= 0x20) at++;
    const uint8_t *from = at;
    while (at < end && *at > 0x20) at++;
    if (at > from) {
      int error = add(w, from, (size_t)(at - from), 1);
      if (error) return error;
    }
  }
  return 0;
}

static inline size_t entry_bytes(uint32_t length) { return 16 + (((size_t)length + 7) & ~(size_t)7); }

static inline size_t part_of(uint64_t hash, size_t parts) { return (size_t)((hash >> 32) * parts >> 32); }

int words_add_entries(words *w, const uint8_t *entries, size_t length, size_t parts, size_t part) {
  size_t at = 0;
  while (at < length) {
    uint32_t size;
    uint64_t count;
    if (length - at < 16) return EBADMSG;
    memcpy(&size, entries + at, 4);
    memcpy(&count, entries + at + 8, 8);
    if (entry_bytes(size) > length - at) return EBADMSG;
    const uint8_t *text = entries + at + 16;
    int error = parts > 1 && part_of(hash_of(text, size), parts) != part ? 0 : add(w, text, size, count);
    if (error) return error;
    at += entry_bytes(size);
  }
  return 0;
}

void words_sizes(const words *w, size_t parts, double *sizes) {
  for (size_t p = 0; p < parts; p++) sizes[p] = 0;
  for (size_t e = 0; e < w->count; e++) sizes[part_of(w->entries[e].hash, parts)] += (double)entry_bytes(w->entries[e].length);
}

int words_write(const words *w, size_t parts, uint8_t *out) {
  double *sizes = malloc(parts * sizeof *sizes);
  uint8_t **next = malloc(parts * sizeof *next);
  if (!sizes || !next) {
    free(sizes);
    free(next);
    return ENOMEM;
  }
  words_sizes(w, parts, sizes);
  for (size_t p = 0; p < parts; p++) {
    next[p] = out;
    out += (size_t)sizes[p];
  }
  for (size_t e = 0; e < w->count; e++) {
    const word *one = &w->entries[e];
    uint8_t *to = next[part_of(one->hash, parts)];
    const uint32_t head[2] = {one->length, 0};
    memcpy(to, head, 8);
    memcpy(to + 8, &one->count, 8);
    memset(to + 16 + (one->length & ~7u), 0, one->length & 7 ? 8 : 0);
    memcpy(to + 16, w->store + one->offset, one->length);
    next[part_of(one->hash, parts)] = to + entry_bytes(one->length);
  }
  free(sizes);
  free(next);
  return 0;
}
