/* All-reduce and all-to-all in place: every rank works in the memory of all. */
#include <errno.h>
#include <string.h>

#include "collective-parts.h"
#include "reduce.h"

enum { LEAST_BLOCK = 16 << 10 };

/* Part r of n elements, cut at cache lines. */
static uint64_t cut(uint64_t count, size_t width, int parts, int part) {
  uint64_t per_line = LINE / width, lines = (count + per_line - 1) / per_line, at = even(lines, parts, part) * per_line;
  return at < count ? at : count;
}

/* Where the vector of a rank is for us during an all-reduce in place. */
typedef struct source {
  uint8_t *base;    /* mapped; NULL: private memory of another rank */
  uint64_t address; /* there */
  int64_t moves;    /* 0: a staging area, which holds one segment at a time */
} source;

static int combine_part(collective *c, collective_call *call, const source *sources, uint64_t at, uint64_t count) {
  size_t width = reduce_width(call->type);
  uint64_t first = cut(count, width, c->size, c->rank) * width, end = cut(count, width, c->size, c->rank + 1) * width, far = 0;
  call->bytes_accessed += 2 * (end - first) * (uint64_t)(c->size - 1);
  if (end <= first || c->size == 1) return 0;
  for (int r = 0; r < c->size; r++) far += !sources[r].base;
  uint64_t block = far ? BLOCK / far / LINE * LINE : end - first;
  if (far && block < LEAST_BLOCK) block = LEAST_BLOCK;
  uint8_t *landing = far ? co_blocks(c, far * block) : NULL;
  if (far && !landing) return -1;
  void *parts[c->size];
  for (uint64_t from = first; from < end; from += block) {
    uint64_t n = end - from < block ? end - from : block;
    uint8_t *next = landing;
    for (int r = 0; r < c->size; r++) {
      uint64_t offset = (sources[r].moves ? at * width : 0) + from;
      if (sources[r].base) {
        parts[r] = sources[r].base + offset;
        continue;
      }
      parts[r] = next;
      next += block;
      if (co_transfer(c->peers[r].pid, parts[r], sources[r].address + offset, n, 0)) return -1;
    }
    reduce_all(call->type, call->op, parts, c->size, n / width, call->divisor);
    for (int r = 0; r < c->size; r++)
      if (!sources[r].base && co_transfer(c->peers[r].pid, parts[r], sources[r].address + at * width + from, n, 1)) return -1;
  }
  return 0;
}

/* Between the vector and the staging area: the parts that other ranks combine, into it or out of it. */
static void stage_parts(collective *c, uint8_t *data, uint8_t *staging, uint64_t n, size_t width, int out) {
  uint64_t first = cut(n, width, c->size, c->rank) * width, end = cut(n, width, c->size, c->rank + 1) * width;
  uint8_t *to = out ? data : staging, *from = out ? staging : data;
  memcpy(to, from, first);
  memcpy(to + end, from + end, n * width - end);
}

void co_run_direct(collective *c, collective_call *call, patience *p) {
  collective_buffer *data = &call->buffer[0];
  size_t width = reduce_width(call->type);
  uint64_t bytes = call->count * width;
  int stays = data->handle >= 0 || (bytes > STAGED && co_reaches_private(c));
  int error = stays ? 0 : co_staging(c, 2 * SEGMENT);
  if (error) {
    co_system_failure(c, call, p, error);
    return;
  }
  place mine = stays ? co_place_of(c, data) : (place){c->staging_handle, 0};
  struct {
    place where;
    int64_t stays;
  } say = {mine, stays};
  if (co_enter(c, call, p, &say, sizeof say)) return;
  source sources[c->size];
  int staged = 0;
  for (int r = 0; r < c->size; r++) {
    memcpy(&say, slot_of(c, r)->payload, sizeof say);
    staged |= !say.stays;
    sources[r] = (source){NULL, say.where.offset, say.stays};
    if (r == c->rank) sources[r] = (source){data->address, 0, 1}; /* the own part needs no staging */
    else if (say.where.handle != PRIVATE && !(sources[r].base = co_reach(c, r, say.where.handle, say.where.offset))) {
      co_system_failure(c, call, p, errno);
      return;
    }
  }
  call->messages = 2 * (uint64_t)(c->size - 1);
  if (!staged) {
    if (combine_part(c, call, sources, 0, call->count)) co_system_failure(c, call, p, errno);
    else co_meet(c, call, p);
    return;
  }
  /* Somebody's memory is out of reach: segment by segment through staging areas of two segments, one filled while the other is combined. */
  uint64_t per_segment = SEGMENT / width;
  for (uint64_t at = 0; at < call->count || at == 0; at += per_segment) {
    uint64_t n = call->count - at < per_segment ? call->count - at : per_segment, next = at + n;
    uint64_t after = call->count - next < per_segment ? call->count - next : per_segment;
    int half = (int)(at / per_segment & 1);
    if (at == 0) {
      if (!stays) stage_parts(c, data->address, c->staging, n, width, 0);
      if (co_meet(c, call, p)) return;
    }
    source here[c->size];
    for (int r = 0; r < c->size; r++) {
      here[r] = sources[r];
      if (!here[r].moves && half) here[r].base += SEGMENT;
    }
    if (combine_part(c, call, here, at, n)) {
      co_system_failure(c, call, p, errno);
      return;
    }
    if (!stays && after) stage_parts(c, data->address + next * width, c->staging + (half ? 0 : SEGMENT), after, width, 0);
    if (co_meet(c, call, p)) return;
    if (!stays) stage_parts(c, data->address + at * width, c->staging + (half ? SEGMENT : 0), n, width, 1);
  }
}

/* Blocks go out in one direction in one call and in the other in the next: what was touched last is still in the cache, so it is used first. */
void co_run_exchange(collective *c, collective_call *call, patience *p) {
  size_t width = reduce_width(call->type);
  uint64_t block = call->count / (uint64_t)c->size * width;
  collective_buffer *input = &call->buffer[0], *output = &call->buffer[1];
  int stays = output->handle >= 0 || co_reaches_private(c), error = stays ? 0 : co_staging(c, output->bytes);
  if (error) {
    co_system_failure(c, call, p, error);
    return;
  }
  uint8_t *landing = stays ? output->address : c->staging;
  place mine = stays ? co_place_of(c, output) : (place){c->staging_handle, 0};
  if (co_enter(c, call, p, &mine, sizeof mine)) return;
  int backwards = c->sequence & 1;
  for (int k = 0; k < c->size; k++) {
    int r = (c->rank + (backwards ? c->size - 1 - k : k)) % c->size;
    place where;
    memcpy(&where, slot_of(c, r)->payload, sizeof where);
    for (uint64_t done = 0, n; done < block; done += n) {
      n = block - done < BLOCK ? block - done : BLOCK;
      uint64_t at = backwards ? block - done - n : done;
      piece own[2] = {{(uint64_t)r * block + at, n}}, there[2] = {{(uint64_t)c->rank * block + at, n}};
      if (r == c->rank) memcpy(landing + there[0].offset, input->address + own[0].offset, n);
      else if (co_access(c, call, r, where, there, input->address, own, PUT, 0)) {
        co_system_failure(c, call, p, errno);
        return;
      }
    }
  }
  call->messages = 2 * (uint64_t)(c->size - 1);
  call->bytes_accessed = block * (uint64_t)(c->size - 1);
  if (co_meet(c, call, p)) return;
  if (!stays) memcpy(output->address, landing, output->bytes);
}
