/** The machine's monotonic clock in milliseconds: the same for all processes of a host, so that their timelines lie on one axis. */

// The first call of a process loads the clock, which takes a millisecond; it must not fall between the two.
performance.now();
const [seconds, nanoseconds] = process.hrtime();
const OFFSET_MS = seconds * 1e3 + nanoseconds / 1e6 - performance.now();

export function nowMs(): number {
  return OFFSET_MS + performance.now();
}
