/**
 * A lock file between processes, held while one of them compiles the addon.
 *
 * The lock is a small file that names its holder: `pid startTime`. It comes into being by `link`, so it is never seen half
 * written, and only one process can win. A holder that died (no such pid, or the pid belongs to a younger process) loses the
 * lock to whoever notices. Two processes that notice at once can, in the worst case, both go ahead: that costs a second
 * compile and nothing else, because the result is renamed into place whole.
 */
import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';

/** How long who waits for another's build sleeps: longer each time, since every look costs the builder time where many wait. */
const FIRST_POLL_MS = 20;
const LAST_POLL_MS = 200;

/** Start time of a process in clock ticks since boot, or '' when there is no such process. */
function startTime(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The second field is the command in parentheses and may hold anything; count the fields after its end.
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  } catch {
    return '';
  }
}

function holderIsAlive(holder: string): boolean {
  const [pid, started] = holder.split(' ');
  return started !== '' && startTime(Number(pid)) === started;
}

function tryLock(lockFile: string, self: string, ticket: string): boolean {
  writeFileSync(ticket, self, { mode: 0o600 });
  try {
    linkSync(ticket, lockFile);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    rmSync(ticket, { force: true });
  }
}

/** Moves the lock of a dead holder aside; false when a living process holds it. */
function dropDeadLock(lockFile: string, aside: string): boolean {
  let holder: string;
  try {
    holder = readFileSync(lockFile, 'latin1');
  } catch {
    return true; // just released
  }
  if (holderIsAlive(holder)) return false;
  try {
    renameSync(lockFile, aside);
    rmSync(aside, { force: true });
  } catch {
    // somebody else moved it first
  }
  return true;
}

/**
 * Runs `body` while holding `lockFile`, and returns its result. While another living process holds the lock, `done` is
 * asked after 20 ms and then less and less often, at last every 200 ms; as soon as it returns a value, that value is returned and `body` never runs.
 *
 * Blocks the calling thread. After `waitMs` (default 120,000 ms) it stops waiting and runs `body` without the lock, since a
 * holder in another pid namespace cannot be told alive from dead, and a second run of `body` must be harmless anyway.
 * Throws what the file system throws when the lock file cannot be created (EACCES, EROFS, ENOSPC ...).
 */
export function withBuildLock<T>(lockFile: string, done: () => T | undefined, body: () => T, waitMs = 120_000): T {
  const self = `${process.pid} ${startTime(process.pid)}`;
  const unique = `${lockFile}.${process.pid}.${process.hrtime.bigint()}`;
  const deadline = performance.now() + waitMs;
  const sleeper = new Int32Array(new SharedArrayBuffer(4));
  let pollMs = FIRST_POLL_MS;
  for (;;) {
    const locked = tryLock(lockFile, self, `${unique}.ticket`);
    try {
      const result = done();
      if (result !== undefined) return result;
      if (locked || performance.now() > deadline) return body();
    } finally {
      if (locked) rmSync(lockFile, { force: true });
    }
    if (dropDeadLock(lockFile, `${unique}.dead`)) continue;
    Atomics.wait(sleeper, 0, 0, pollMs);
    pollMs = Math.min(2 * pollMs, LAST_POLL_MS);
  }
}
