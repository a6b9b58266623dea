/*
 * The watch: a thread that notices when peer processes die or stop, even while the JavaScript thread is blocked.
 *
 * It waits on pidfds. What it finds goes into words that pollers read anyway:
 *
 *   word of the peer   0 running, 1 stopped (SIGSTOP), 2 dead
 *   attention          counts changes; one load per poll shows whether there is anything to look at
 *   bell               a pipe; one byte wakes an event loop that sleeps
 */
#ifndef VERBENA_WATCH_H
#define VERBENA_WATCH_H

#include <stdint.h>
#include <sys/types.h>

typedef struct watch watch;

enum { WATCH_RUNNING = 0, WATCH_STOPPED = 1, WATCH_DEAD = 2 };

/* attention and bell must outlive the watch. Returns 0 or errno. */
int watch_start(int32_t *attention, int bell, watch **out);
/* Watches a process. start_time is field 22 of /proc/PID/stat: a reused pid counts as dead. Returns a handle >= 0, or -errno. */
int watch_add(watch *w, pid_t pid, uint64_t start_time, int32_t *word);
/* Once it returned, the word is not touched any more. */
void watch_remove(watch *w, int handle);
/* Ends the thread. */
void watch_stop(watch *w);

/* Start time and state letter of a process, from /proc. Returns 0, ESRCH when it is gone, or why nobody knows: EMFILE, say. */
int process_stat(pid_t pid, uint64_t *start_time, char *state);
/* Whether it has ended for sure. */
int process_is_gone(pid_t pid, uint64_t start_time);

#endif
