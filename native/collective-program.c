/* Encoded schedules (src/schedule/encoding.ts). */
#include <errno.h>
#include <string.h>

#include "collective-parts.h"
#include "reduce.h"

enum { PROGRAM_MAGIC = 0x56534301, HEADER_WORDS = 4, RECORD_WORDS = 8, FINISH = 1 << 8, LANES = 64 };
enum { OP_SEND = 1, OP_RECEIVE, OP_RECEIVE_REDUCE, OP_COPY, OP_REDUCE, OP_READ, OP_READ_REDUCE, OP_WRITE, OP_SIGNAL, OP_WAIT, OP_AFTER };

typedef struct execution {
  collective *c;
  collective_call *call;
  patience *p;
  int chunks;
  size_t width;
  uint8_t *base[COLLECTIVE_BUFFERS];  /* where own buffers lie: the caller's memory, or staging */
  place where[COLLECTIVE_BUFFERS];    /* the same for peers */
} execution;

static uint64_t offset_of(execution *x, int buffer, int chunk) {
  const double *offsets = x->call->buffer[buffer].offsets;
  return (offsets ? (uint64_t)offsets[chunk] : even(x->call->count, x->chunks, chunk)) * x->width;
}

/* Bytes in `count` chunks from `first`, cyclic. */
static uint64_t length_of(execution *x, int buffer, int first, int count) {
  int end = first + count;
  if (end <= x->chunks) return offset_of(x, buffer, end) - offset_of(x, buffer, first);
  return offset_of(x, buffer, x->chunks) - offset_of(x, buffer, first) + offset_of(x, buffer, end - x->chunks);
}

static void pieces_of(execution *x, int buffer, int whole, int first, int count, piece out[2]) {
  int start = whole ? 0 : x->call->buffer[buffer].first;
  int head = count < x->chunks - first ? count : x->chunks - first;
  out[0] = (piece){length_of(x, buffer, start, (first - start + x->chunks) % x->chunks), length_of(x, buffer, first, head)};
  out[1] = (piece){0, 0};
  if (count > head)
    out[1] = (piece){length_of(x, buffer, start, (x->chunks - start) % x->chunks), length_of(x, buffer, 0, count - head)};
}

static line *inbox(collective *c, int owner, int from, int channel) {
  return &c->peers[owner].control->lines[from * COLLECTIVE_CHANNELS + channel];
}

static line *acks(collective *c, int owner, int from, int channel) { return inbox(c, owner, c->size + from, channel); }

typedef struct lane {
  const int32_t *at, *end;
  int completed, posted;
} lane;

enum { BLOCKED, ADVANCED, FAILED };

/* Tries the instruction at which a lane stands. */
static int step(execution *x, lane *lanes, lane *l) {
  collective *c = x->c;
  const int32_t *w = l->at;
  int op = w[0] & 0xff, finishes = w[0] & FINISH, other = w[2], channel = w[3];
  int buffer = w[4] & 0xffff, other_buffer = w[4] >> 16 & 0xffff, first = w[5], count = w[6];
  int stream = other * COLLECTIVE_CHANNELS + channel;
  piece own[2], there[2];
  switch (op) {
    case OP_AFTER: return lanes[other].completed >= count ? ADVANCED : BLOCKED;
    case OP_SEND:
      if (!l->posted) {
        line *box = inbox(c, other, c->rank, channel);
        pieces_of(x, buffer, 0, first, count, own);
        box->handle = (int32_t)x->where[buffer].handle;
        for (int i = 0; i < 2; i++) {
          box->part[i].offset = x->where[buffer].offset + own[i].offset;
          box->part[i].length = own[i].length;
          x->call->bytes_sent += own[i].length;
        }
        x->call->messages++;
        publish(&box->count, ++c->posted[stream]);
        co_wake(c->peers[other].control);
        l->posted = 1;
      }
      if (load(&acks(c, c->rank, other, channel)->count) - c->posted[stream] < 0) return BLOCKED;
      l->posted = 0;
      return ADVANCED;
    case OP_SIGNAL:
      x->call->messages++;
      publish(&inbox(c, other, c->rank, channel)->count, ++c->posted[stream]);
      co_wake(c->peers[other].control);
      return ADVANCED;
    case OP_WAIT:
    case OP_RECEIVE:
    case OP_RECEIVE_REDUCE: {
      line *box = inbox(c, c->rank, other, channel);
      if (load(&box->count) - (c->taken[stream] + 1) < 0) return BLOCKED;
      c->taken[stream]++;
      if (op == OP_WAIT) return ADVANCED;
      pieces_of(x, buffer, 0, first, count, own);
      for (int i = 0; i < 2; i++) {
        if (box->part[i].length != own[i].length) {
          errno = EPROTO;
          return FAILED;
        }
        there[i] = (piece){box->part[i].offset, own[i].length};
      }
      if (own[0].length + own[1].length &&
          co_access(c, x->call, other, (place){box->handle, 0}, there, x->base[buffer], own, op == OP_RECEIVE ? FETCH : FETCH_REDUCE, finishes))
        return FAILED;
      publish(&acks(c, other, c->rank, channel)->count, c->taken[stream]);
      co_wake(c->peers[other].control);
      return ADVANCED;
    }
    case OP_COPY:
    case OP_REDUCE:
      pieces_of(x, buffer, 0, first, count, own);
      pieces_of(x, other_buffer, 0, w[7], count, there);
      co_store(x->call, x->base[buffer], own, x->base[other_buffer], there, op == OP_REDUCE, finishes);
      return ADVANCED;
    case OP_READ:
    case OP_READ_REDUCE:
    case OP_WRITE: {
      place where;
      memcpy(&where, slot_of(c, other)->payload + (size_t)other_buffer * sizeof where, sizeof where);
      pieces_of(x, buffer, 0, first, count, own);
      if (own[0].length + own[1].length == 0) return ADVANCED;
      pieces_of(x, other_buffer, 1, w[7], count, there);
      enum access access = op == OP_WRITE ? PUT : op == OP_READ ? FETCH : FETCH_REDUCE;
      if (co_access(c, x->call, other, where, there, x->base[buffer], own, access, finishes)) return FAILED;
      x->call->bytes_accessed += own[0].length + own[1].length;
      return ADVANCED;
    }
    default: errno = ENOSYS; return FAILED;
  }
}

static int run_lanes(execution *x) {
  const int32_t *program = x->call->program;
  int count = program[1];
  lane lanes[LANES];
  for (int i = 0; i < count; i++) {
    const int32_t *start = program + program[HEADER_WORDS + 2 * i];
    lanes[i] = (lane){start, start + RECORD_WORDS * program[HEADER_WORDS + 2 * i + 1], 0, 0};
  }
  for (;;) {
    int advanced = 0, open_lanes = 0;
    for (int i = 0; i < count; i++) {
      lane *l = &lanes[i];
      while (l->at < l->end) {
        int result = step(x, lanes, l);
        if (result == FAILED) return co_system_failure(x->c, x->call, x->p, errno);
        if (result == BLOCKED) break;
        if ((l->at[0] & 0xff) != OP_AFTER) l->completed++;
        l->at += RECORD_WORDS;
        advanced = 1;
      }
      open_lanes += l->at < l->end;
    }
    if (advanced) co_wait_over(x->c, x->p);
    if (!open_lanes) return CALL_DONE;
    if (advanced) continue;
    int status = co_wait_turn(x->c, x->p);
    if (status) return co_give_up(x->c, x->call, x->p, status);
  }
}

void co_run_program(collective *c, collective_call *call, patience *p) {
  execution x = {.c = c, .call = call, .p = p, .width = reduce_width(call->type)};
  if (call->program[0] != PROGRAM_MAGIC || call->program[1] > LANES || call->program[3] != c->size) {
    co_system_failure(c, call, p, EINVAL);
    return;
  }
  x.chunks = call->program[2];
  size_t needed = 0;
  int staged[COLLECTIVE_BUFFERS], reaches = co_reaches_private(c);
  for (int b = 0; b < call->buffers; b++) {
    collective_buffer *buffer = &call->buffer[b];
    int stays = buffer->handle >= 0 || !buffer->exposed || (reaches && buffer->bytes > STAGED);
    staged[b] = !buffer->address || !stays;
    if (staged[b]) needed += (buffer->bytes + LINE - 1) / LINE * LINE;
  }
  int error = co_staging(c, needed);
  if (error) {
    co_system_failure(c, call, p, error);
    return;
  }
  size_t used = 0;
  for (int b = 0; b < call->buffers; b++) {
    collective_buffer *buffer = &call->buffer[b];
    x.where[b] = (place){NOWHERE, 0};
    x.base[b] = buffer->address;
    if (!staged[b]) {
      if (buffer->handle >= 0 || buffer->exposed) x.where[b] = co_place_of(c, buffer);
    } else {
      x.where[b] = (place){c->staging_handle, used};
      x.base[b] = c->staging + used;
      used += (buffer->bytes + LINE - 1) / LINE * LINE;
      if (buffer->address && buffer->in) memcpy(x.base[b], buffer->address, buffer->bytes);
    }
  }
  if (co_enter(c, call, p, x.where, sizeof x.where)) return;
  if (run_lanes(&x)) return;
  for (int b = 0; b < call->buffers; b++) {
    collective_buffer *buffer = &call->buffer[b];
    if (buffer->address && buffer->out && x.base[b] != buffer->address) memcpy(buffer->address, x.base[b], buffer->bytes);
  }
}
