/*
 * UCX behind two rings of numbers: what JavaScript wants stands in the command block, what happened stands in the event block, and one call
 * executes the first and fills the second.
 *
 *   head (64 words)   0 bytes of commands   1 bytes of events   2 mode in: PROGRESS or FLUSH   3 things done   4 result of the last command
 *                     5 operations that go on   6, 7 what an atomic that is complete found
 *   commands          records of 8-byte multiples: [opcode, bytes, ...]
 *   events            the same; what does not fit waits in a list and comes with the next call
 *
 * A command's result: 0 complete, a positive number names the operation that goes on, until the event that tells its end was read, a negative one is a
 * ucs_status_t. The numbers are small: those of operations that are over are used again.
 * Everything of a worker happens on one thread.
 */
#ifndef VERBENA_UCX_ENGINE_H
#define VERBENA_UCX_ENGINE_H

#include <stddef.h>
#include <stdint.h>
#include <ucp/api/ucp.h>

enum { HEAD_COMMANDS, HEAD_EVENTS, HEAD_MODE, HEAD_DONE, HEAD_RESULT, HEAD_LIVE, HEAD_VALUE, HEAD_WORDS = 64 };
enum { MODE_PROGRESS, MODE_FLUSH };

/* Commands. Offsets of their fields are in 32-bit words; f64 fields start at even words. */
enum {
  CMD_SEND = 1, /* 2 endpoint, 3 ucp_send_am_flags, 4 header bytes, 5 inline bytes or -1, 6 f64 address, 8 f64 length, 10 header, then inline bytes at the next multiple of 4 */
  CMD_TAKE,     /* 2 kind of data, 4 f64 data, 6 f64 destination, 8 f64 length */
  CMD_DROP,     /* 2 kind of data, 4 f64 data */
  CMD_PUT,      /* 2 endpoint, 3 inline bytes or -1, 4 f64 address, 6 f64 length, 8 f64 remote address, 10 f64 rkey, 12 inline bytes */
  CMD_GET,      /* as PUT, never inline */
  CMD_ATOMIC,   /* 2 endpoint, 3 ucp_atomic_op_t, 4 operand u64 (CSWAP: what to compare with), 6 u64 to swap in, 8 f64 remote address, 10 f64 rkey */
  CMD_FLUSH,    /* 2 endpoint */
};

/* How the data of an arrived message is held. */
enum { DATA_INLINE, DATA_BLOCK, DATA_DESCRIPTOR, DATA_RENDEZVOUS };

/* Events. */
enum {
  EVENT_MESSAGE = 1, /* 2 kind of data, 3 header bytes, or 0: the header is the beginning of the data, 4 f64 length of the data, 6 f64 data (inline: its length again, as a word),
                        8 header, then inline bytes at the next multiple of 4 */
  EVENT_DONE,        /* 2 operation, 3 status, 4 what an atomic found */
  EVENT_FAILED,      /* 2 endpoint, 3 status */
};

/* Data up to here comes with the event. */
#define INLINE_BYTES 16384
/* Looks at UCX in one call, while there is nothing to tell: after a large copy the way back to JavaScript finds nothing in the caches. */
#define LOOKS 32

typedef struct engine engine;

/* `rings`: HEAD_WORDS words, then `command_bytes`, then `event_bytes`. The memory must outlive the engine. */
ucs_status_t engine_open(ucp_context_h context, void *rings, size_t command_bytes, size_t event_bytes, engine **out);
/* Abandons what is under way. */
void engine_close(engine *e);
/* Executes the commands; in MODE_PROGRESS also makes progress and hands over events. */
void engine_run(engine *e);
/* 1 when it is safe to sleep until the descriptor is readable, 0 when there is something to do. */
int engine_arm(engine *e);
int engine_descriptor(engine *e);
ucp_worker_h engine_worker(engine *e);
size_t engine_header_limit(engine *e);

/* Endpoints by number: -1 for a bad address or a failure, whose status is in `status`. */
int engine_connect(engine *e, const ucp_address_t *address, int peer_errors, ucs_status_t *status);
/* Closes; with `force` outstanding operations fail (only where peer errors are handled). Returns as a command does. */
int64_t engine_disconnect(engine *e, int endpoint, int force);
ucp_ep_h engine_endpoint(engine *e, int endpoint);

#endif
