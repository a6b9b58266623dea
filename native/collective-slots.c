/* The beginning of every call, and calls that fit into a slot. */
#include <string.h>

#include "collective-parts.h"
#include "reduce.h"

void co_announce(collective *c, collective_call *call, const void *payload, size_t bytes) {
  c->sequence++;
  slot *mine = slot_of(c, c->rank);
  int32_t signature[COLLECTIVE_WORDS] = {call->collective | call->op << 8 | call->type << 16 | call->method << 24, call->root,
                                         (int32_t)call->count, (int32_t)(call->count >> 32), call->identity};
  memcpy(mine->signature, signature, sizeof signature);
  if (bytes) memcpy(mine->payload, payload, bytes);
  publish(&mine->sequence, c->sequence);
  co_wake_all(c);
}

int co_enter(collective *c, collective_call *call, patience *p, const void *payload, size_t bytes) {
  if (!call->announced) co_announce(c, call, payload, bytes);
  int32_t *signature = slot_of(c, c->rank)->signature;
  size_t length = COLLECTIVE_WORDS * sizeof *signature;
  int other = -1;
  for (int k = 1; k < c->size; k++) {
    int r = (c->rank + k) % c->size;
    slot *theirs = slot_of(c, r);
    int status = co_await(c, call, p, &theirs->sequence, c->sequence);
    if (status) return status;
    if (memcmp(theirs->signature, signature, length) != 0 && (other < 0 || r < other)) other = r;
  }
  if (call->times) call->times[1] = now_ms();
  if (other < 0) return CALL_DONE;
  call->culprit = other;
  memcpy(call->theirs, slot_of(c, other)->signature, length);
  return call->status = CALL_MISMATCH;
}

int co_meet(collective *c, collective_call *call, patience *p) {
  publish(&c->own->finished, ++c->phase);
  co_wake_all(c);
  for (int k = 1; k < c->size; k++) {
    int status = co_await(c, call, p, &c->peers[(c->rank + k) % c->size].control->finished, c->phase);
    if (status) return status;
  }
  return CALL_DONE;
}

piece co_said_in_slot(collective *c, collective_call *call, size_t width) {
  uint64_t first = even(call->count, c->size, c->rank) * width, end = even(call->count, c->size, c->rank + 1) * width;
  switch (call->collective) {
    case COLLECTIVE_ALL_GATHER: return (piece){first, end - first};
    case COLLECTIVE_GATHER: return (piece){0, call->buffer[0].bytes};
    case COLLECTIVE_BROADCAST:
    case COLLECTIVE_SCATTER: return (piece){0, c->rank == call->root ? call->count * width : 0};
    default: return (piece){0, call->count * width};
  }
}

static void combine_slots(collective *c, collective_call *call, uint8_t *data, uint64_t first, uint64_t end, int ranks) {
  size_t width = reduce_width(call->type);
  memcpy(data + first, slot_of(c, 0)->payload + first, end - first);
  for (int r = 1; r < ranks; r++)
    reduce_into(call->type, call->op, data + first, slot_of(c, r)->payload + first, (end - first) / width,
                r == c->size - 1 ? call->divisor : 1);
}

void co_run_slots(collective *c, collective_call *call, patience *p) {
  size_t width = reduce_width(call->type), bytes = call->count * width;
  uint8_t *data = call->buffer[0].address, *output = call->buffer[1].address;
  uint64_t first = even(call->count, c->size, c->rank) * width, end = even(call->count, c->size, c->rank + 1) * width;
  piece said = co_said_in_slot(c, call, width);
  if (co_enter(c, call, p, data + said.offset, said.length)) return;
  call->messages = (uint64_t)c->size - 1;
  call->bytes_sent = said.length * (uint64_t)(c->size - 1);
  switch (call->collective) {
    case COLLECTIVE_REDUCE:
      if (c->rank == call->root) combine_slots(c, call, data, 0, bytes, c->size);
      return;
    case COLLECTIVE_ALLREDUCE: combine_slots(c, call, data, 0, bytes, c->size); return;
    case COLLECTIVE_REDUCE_SCATTER: combine_slots(c, call, data, first, end, c->size); return;
    case COLLECTIVE_SCAN: combine_slots(c, call, data, 0, bytes, c->rank + 1); return;
    case COLLECTIVE_ALL_GATHER:
    case COLLECTIVE_GATHER:
      if (call->collective == COLLECTIVE_GATHER) {
        if (c->rank != call->root) return;
        data = output;
      }
      for (int r = 0; r < c->size; r++) {
        uint64_t at = even(call->count, c->size, r) * width;
        memcpy(data + at, slot_of(c, r)->payload, even(call->count, c->size, r + 1) * width - at);
      }
      return;
    case COLLECTIVE_SCATTER: memcpy(output, slot_of(c, call->root)->payload + first, end - first); return;
    case COLLECTIVE_ALL_TO_ALL:
      for (int r = 0; r < c->size; r++) memcpy(output + (size_t)r * (end - first), slot_of(c, r)->payload + first, end - first);
      return;
    case COLLECTIVE_BROADCAST:
      if (c->rank != call->root) memcpy(data, slot_of(c, call->root)->payload, bytes);
  }
}
