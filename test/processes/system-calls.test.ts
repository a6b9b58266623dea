/** Kernel bypass: polled operations on arena memory make no system call, counted by strace. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { processTest } from './harness.js';
import { Link, type Offer } from './link.js';

const SMALL = 100_000;
const LARGE = 1_000_000;

/** System calls between two marks: those of the thread that made the marks, and all. */
function between(trace: string[], name: string): { own: string[]; all: number } {
  const begin = trace.findIndex((line) => line.includes(`verbena-mark-${name}-begin`));
  const end = trace.findIndex((line) => line.includes(`verbena-mark-${name}-end`));
  assert.ok(begin >= 0 && end > begin, `the trace shows the marks of ${name}`);
  const thread = trace[begin].split(' ')[0];
  const lines = trace.slice(begin + 1, end);
  return { own: lines.filter((line) => line.startsWith(`${thread} `)), all: lines.length };
}

processTest(
  'a million polled operations on arena memory make no system call',
  async (hand) => {
    const probe = spawnSync('strace', ['-o', '/dev/null', 'true']);
    if (probe.error || probe.status !== 0) {
      hand.context.skip(`strace cannot trace here: ${probe.error?.message ?? String(probe.stderr).trim()}`);
      return;
    }
    const folder = mkdtempSync(join(tmpdir(), 'verbena-strace-'));
    const path = join(folder, 'trace');
    try {
      const link = await Link.open(4096);
      const wrapper = ['strace', '-f', '-q', '-o', path];
      const traced = hand.process('polled-operations', { counts: [SMALL, LARGE] }, { wrapper, watchdogMs: 55_000 });
      const offer = await traced.hear<Offer>('offer');
      traced.say({ type: 'offer', ...link.offer() });
      await link.join(offer);
      await traced.hear('done');
      traced.say({ type: 'end' });
      await traced.exited;
      link.close();
      const trace = readFileSync(path, 'utf8').split('\n');
      for (const operation of ['write', 'read', 'atomic', 'send']) {
        const small = between(trace, `${operation}-${SMALL}`);
        const large = between(trace, `${operation}-${LARGE}`);
        hand.context.diagnostic(
          `${operation}: ${small.own.length} calls for ${SMALL} operations, ${large.own.length} for ${LARGE} (all threads: ${large.all})`,
        );
        // The engine itself may collect garbage or compile once more; a call per operation would be a million.
        assert.ok(
          large.own.length <= 20,
          `${operation}: ${large.own.length} calls, such as ${large.own.slice(0, 3).join(' | ')}`,
        );
        assert.ok(large.all <= LARGE / 1000, `${operation}: ${large.all} calls of all threads`);
      }
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
  60_000,
);
