/*
 * Liveness: the native thread of a rank that hears which ranks died, and the guard that ends a rank when its launcher is gone. Both work
 * while the JavaScript thread computes or is blocked.
 *
 * The thread holds the lifeline, a TCP connection to the coordinator (in the launcher, or in rank 0), and watches the ranks of its own host
 * by pidfd. What it learns goes into the board, memory that JavaScript polls. The same picture is in src/launch/board.ts; 32-bit words:
 *
 *   0 magic    1 version    2 size    3 own rank
 *   4 attention: counts changes of the words below      5 coordinator: 0 connected, 1 said goodbye, 2 gone
 *   6 stall time, ms; 0: none    7 heartbeat, ms; 0: none    8 silence after which a host counts as vanished, ms
 *   9 rank that holds the coordinator, or -1: the launcher     10 reports: counts stall reports      11 length of the last report, bytes
 *  12 1: end this process when the coordinator is gone
 *  16            slots of waiting calls, 16 words each: 0 sequence (odd: somebody waits), 1 site, 2 peer (-1: all), 3 detail
 *  16 + 16*16    sites, 32 words each: 0 length, then the text: what a waiting call is called
 *  REPORT        the last stall report
 *  RANKS         64 words a rank: 0 state (0 running, 1 left, 2 lost), 1 length of the reason, then the text of the reason
 *
 * A frame on the lifeline: four 32-bit words in the byte order of this machine (little endian everywhere we run): type, rank, code,
 * length; then the text.
 */
#ifndef VERBENA_LIVENESS_H
#define VERBENA_LIVENESS_H

#include <stdint.h>
#include <sys/types.h>

typedef struct liveness liveness;

/*
 * Connects to the coordinator at a numeric address, shows the ticket (text), and starts the thread. board and bell must outlive it.
 * Returns 0 or errno. Waits for the connection for at most 10 s.
 */
int liveness_start(int32_t *board, int bell, const char *address, int port, const char *ticket, liveness **out);
/* Watches a rank of this host. start_time is field 22 of /proc/PID/stat. Returns 0 or errno. */
int liveness_watch(liveness *l, int rank, pid_t pid, uint64_t start_time);
/* Says that this process is about to end, with its exit code; 0: the rank leaves in peace. Does not wait. */
void liveness_leave(liveness *l, int code);
/* Ends the thread and closes the lifeline. */
void liveness_stop(liveness *l);

/*
 * Ends this process, and its process group when it leads one, with SIGKILL as soon as the other end of fd closes: whoever holds it is gone.
 * A stopped process is resumed for that. Returns 0 or errno.
 */
int guard_start(int fd);

#endif
