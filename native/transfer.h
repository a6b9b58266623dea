/*
 * The transfer thread: large copies leave the JavaScript thread.
 *
 * Requests run in the order they were submitted, one after the other, each cut into pieces. A poller that would otherwise
 * only wait takes pieces too (transfer_help), so a program that polls is not slower for having handed the copy over.
 *
 *   submit ──> [ request | request | request ]      pieces of the first one are taken by the thread and by helpers;
 *                  ^head                 ^tail       whoever finishes the last piece finishes the request
 *
 * Finishing: the completion entry goes into the receiver's ring (if there is one), the announcement is taken back, `done` counts up.
 */
#ifndef VERBENA_TRANSFER_H
#define VERBENA_TRANSFER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct transfer transfer;

enum { TRANSFER_COPY = 0, TRANSFER_WRITE_PROCESS = 1, TRANSFER_READ_PROCESS = 2 };

typedef struct transfer_part {
  uint64_t to, from; /* for the process kinds one of them is an address of the other process */
  uint64_t length;
  int kind;
} transfer_part;

typedef struct transfer_request {
  const transfer_part *parts; /* copied by submit */
  int count;
  pid_t pid;
  int32_t *announcement; /* the key in use: announced when the request starts, set to 0 at the end; NULL: none */
  int32_t announce;
  const int32_t *serial; /* must still hold `expected` after announcing, else the key was revoked: EACCES */
  int32_t expected;
  int32_t *slot;         /* 16 words of a completion entry in the receiver's memory; NULL: none */
  int32_t entry[16];     /* what goes there; word 0, the sequence, is stored last */
  int32_t *cq;           /* head of the receiver's completion queue, for notify_queue */
  uint32_t ring;
  int solicited;
  int cq_bell; /* the receiver's */
} transfer_request;

/* done and error are words of the caller: done counts finished requests, error[k % 256] is the errno of the k-th. */
int transfer_start(int32_t *done, int32_t *error, int bell, transfer **out);
/* EAGAIN when 256 requests are outstanding. */
int transfer_submit(transfer *t, const transfer_request *request);
/* Takes one piece, if there is one. Returns whether it did. */
int transfer_help(transfer *t);
/* Whether to ring the bell when a request finishes: set while the owner sleeps. */
void transfer_ring_at_end(transfer *t, int on);
/* Ends the thread at the next piece. What is outstanding is dropped, and its announcement taken back. No helper may be at work. */
void transfer_stop(transfer *t);

#endif
