/* Lifelines whose other end is in the hands of the test, watched processes, and the guard. */
#define _GNU_SOURCE
#include "liveness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "check.h"
#include "watch.h"

enum { SIZE = 3, RANKS = 4368, RANK_WORDS = 64, WORDS = RANKS + SIZE * RANK_WORDS };
enum { ATTACH = 1, BEAT = 2, LEAVE = 3, STALL = 4, WAITING = 5, LEFT = 6, LOST = 7, WHERE = 8, BYE = 9, REPORT = 10 };

static int32_t board[WORDS];
static test_bell bell;
static int listener, port, line;
static liveness *l;

static int32_t load(int32_t *word) { return __atomic_load_n(word, __ATOMIC_SEQ_CST); }
static int state_of(int rank) { return load(&board[RANKS + rank * RANK_WORDS]); }

static void reason_is(int rank, const char *text) {
  int32_t *entry = &board[RANKS + rank * RANK_WORDS];
  CHECK(load(entry + 1) == (int32_t)strlen(text));
  CHECK(memcmp(entry + 2, text, strlen(text)) == 0);
}

static void say(int type, int rank, const char *text) {
  int32_t head[4] = {type, rank, 0, (int32_t)strlen(text)};
  CHECK(send(line, head, sizeof head, MSG_NOSIGNAL) == sizeof head);
  CHECK(send(line, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text));
}

/* The next frame that is no heartbeat; returns its code. */
static int hear(int type, char *text) {
  for (;;) {
    int32_t head[4];
    CHECK(recv(line, head, sizeof head, MSG_WAITALL) == sizeof head);
    CHECK(head[3] >= 0 && head[3] < 512);
    if (head[3] > 0) CHECK(recv(line, text, (size_t)head[3], MSG_WAITALL) == head[3]);
    text[head[3]] = 0;
    if (head[0] == BEAT) continue;
    CHECK(head[0] == type);
    CHECK(head[1] == 1);
    return head[2];
  }
}

/* A rank 1 of 3; words 6 to 9 and 12 of the board as given. */
static void open_line(int stall, int beat, int silence, int holder) {
  char text[512];
  memset(board, 0, sizeof board);
  board[2] = SIZE;
  board[3] = 1;
  board[6] = stall;
  board[7] = beat;
  board[8] = silence;
  board[9] = holder;
  CHECK(liveness_start(board, bell.write_fd, "127.0.0.1", port, "ticket", &l) == 0);
  line = accept(listener, NULL, NULL);
  CHECK(line >= 0);
  hear(ATTACH, text);
  CHECK(strcmp(text, "ticket") == 0);
}

static void close_line(void) {
  liveness_stop(l);
  if (line >= 0) close(line);
}

static void deaths_and_goodbyes_reach_the_board(void) {
  open_line(0, 0, 0, -1);
  bell_drain(bell);
  say(LOST, 2, "killed by SIGKILL");
  EVENTUALLY(state_of(2) == 2);
  reason_is(2, "killed by SIGKILL");
  CHECK(load(&board[4]) > 0);
  CHECK(bell_wait(bell, PATIENCE_MS));
  say(LEFT, 0, "finished");
  say(LOST, 0, "later");
  say(LOST, 7, "no such rank");
  say(REPORT, -1, "a report");
  EVENTUALLY(load(&board[10]) == 1);
  CHECK(state_of(0) == 1);
  CHECK(memcmp(board + 2320, "a report", 8) == 0);
  close_line();
}

static void a_reason_longer_than_its_room_is_cut(void) {
  char text[1001];
  memset(text, 'x', 1000);
  text[1000] = 0;
  open_line(0, 0, 0, -1);
  say(LOST, 2, text);
  EVENTUALLY(state_of(2) == 2);
  CHECK(load(&board[RANKS + 2 * RANK_WORDS + 1]) == (RANK_WORDS - 2) * 4);
  close_line();
}

static void bytes_that_are_no_frame_end_the_line(void) {
  int32_t head[4] = {LOST, 2, 0, 1 << 30};
  open_line(0, 0, 0, 0);
  CHECK(send(line, head, sizeof head, MSG_NOSIGNAL) == sizeof head);
  EVENTUALLY(state_of(0) == 2);
  close_line();
}

static void the_holder_is_lost_with_the_line_unless_it_said_goodbye(void) {
  open_line(0, 0, 0, 0);
  close(line);
  line = -1;
  EVENTUALLY(state_of(0) == 2);
  CHECK(load(&board[5]) == 2);
  close_line();
  open_line(0, 0, 0, 0);
  say(BYE, -1, "");
  EVENTUALLY(load(&board[5]) == 1);
  close_line();
  CHECK(state_of(0) == 0);
}

static void silence_is_the_loss_of_the_holder(void) {
  open_line(0, 10, 100, 0);
  EVENTUALLY(state_of(0) == 2);
  close_line();
}

static void a_waiting_call_is_told_when_asked_and_when_it_takes_long(void) {
  char text[512];
  int32_t *slot = board + 16, *site = board + 272 + 32;
  open_line(40, 0, 0, -1);
  say(WHERE, -1, "");
  CHECK(hear(WAITING, text) == -1);
  memcpy(site + 1, "receive", 7);
  site[0] = 7;
  slot[1] = 1;
  slot[2] = 2;
  slot[3] = 99;
  __atomic_store_n(slot, 1, __ATOMIC_SEQ_CST);
  CHECK(hear(STALL, text) >= 40);
  CHECK(strncmp(text, "2 99 ", 5) == 0 && strstr(text, " receive"));
  __atomic_store_n(slot, 2, __ATOMIC_SEQ_CST);
  close_line();
}

/* A child that rank 2 is, watched; 0 where the kernel (or valgrind) has no pidfds and only the coordinator's word counts. */
static pid_t watched_child(void) {
  uint64_t start;
  char state;
  pid_t pid = fork_idle();
  CHECK(process_stat(pid, &start, &state) == 0);
  int error = liveness_watch(l, 2, pid, start);
  if (error == 0) return pid;
  kill_and_reap(pid);
  CHECK(error == ENOSYS);
  return 0;
}

static void a_watched_process_that_ends_is_lost(void) {
  open_line(0, 0, 0, -1);
  pid_t pid = watched_child();
  if (pid == 0) {
    close_line();
    return;
  }
  CHECK(liveness_watch(l, 9, pid, 1) == EINVAL);
  kill_and_reap(pid);
  EVENTUALLY(state_of(2) == 2);
  reason_is(2, "its process is gone");
  /* one that was gone before, and a stranger with its number */
  CHECK(liveness_watch(l, 0, getpid(), 1) == 0);
  EVENTUALLY(state_of(0) == 2);
  close_line();
}

static void the_word_of_the_coordinator_comes_before_the_end_of_the_process(void) {
  open_line(0, 0, 0, -1);
  pid_t pid = watched_child();
  if (pid != 0) kill_and_reap(pid);
  usleep(300000); /* a coordinator that has to wait for its turn */
  say(LEFT, 2, "finished");
  EVENTUALLY(state_of(2) != 0);
  CHECK(state_of(2) == 1);
  close_line();
}

static void leaving_is_said_once(void) {
  char text[512];
  open_line(0, 0, 0, -1);
  liveness_leave(l, 3);
  liveness_leave(l, 0);
  CHECK(hear(LEAVE, text) == 3);
  liveness_stop(l);
  CHECK(recv(line, text, 1, 0) == 0);
  close(line);
}

static void nobody_at_the_other_end_is_an_error(void) {
  liveness *none;
  CHECK(liveness_start(board, bell.write_fd, "127.0.0.1", 1, "ticket", &none) == ECONNREFUSED);
  CHECK(liveness_start(board, bell.write_fd, "no address", port, "ticket", &none) == EINVAL);
}

/* A child with a guard on a pipe; `stopped`: it is stopped when the pipe ends. */
static void guarded(int stopped) {
  int pipes[2], ready[2], status;
  char byte;
  CHECK(pipe2(pipes, O_CLOEXEC) == 0 && pipe2(ready, O_CLOEXEC) == 0);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    close(pipes[1]);
    CHECK(guard_start(pipes[0]) == 0);
    CHECK(write(ready[1], "", 1) == 1);
    for (;;) pause();
  }
  close(pipes[0]);
  CHECK(read(ready[0], &byte, 1) == 1);
  if (stopped) kill(pid, SIGSTOP);
  close(pipes[1]);
  if (stopped) kill(pid, SIGCONT); /* what the kernel does when the parent dies; here the parent lives */
  CHECK(waitpid(pid, &status, 0) == pid);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  close(ready[0]);
  close(ready[1]);
}

static void the_guard_ends_the_process_with_the_pipe(void) {
  guarded(0);
  guarded(1);
}

int main(void) {
  struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof here;
  listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK(listener >= 0 && bind(listener, (struct sockaddr *)&here, sizeof here) == 0 && listen(listener, 8) == 0);
  CHECK(getsockname(listener, (struct sockaddr *)&here, &length) == 0);
  port = ntohs(here.sin_port);
  bell = bell_open();
  int before = open_files();
  RUN(deaths_and_goodbyes_reach_the_board);
  RUN(a_reason_longer_than_its_room_is_cut);
  RUN(bytes_that_are_no_frame_end_the_line);
  RUN(the_holder_is_lost_with_the_line_unless_it_said_goodbye);
  RUN(silence_is_the_loss_of_the_holder);
  RUN(a_waiting_call_is_told_when_asked_and_when_it_takes_long);
  RUN(a_watched_process_that_ends_is_lost);
  RUN(the_word_of_the_coordinator_comes_before_the_end_of_the_process);
  RUN(leaving_is_said_once);
  RUN(nobody_at_the_other_end_is_an_error);
  RUN(the_guard_ends_the_process_with_the_pipe);
  CHECK(open_files() == before);
  bell_close(bell);
  close(listener);
  return 0;
}
