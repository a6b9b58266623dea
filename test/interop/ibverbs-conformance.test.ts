/** The conformance suites of verbs and messaging on `ibverbs:rxe0`, in a guest with the kernel's rdma_rxe; what it cannot do is listed in ibverbs/rxe-skips.ts. That of verbs runs with sanitizers. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dropGuest, inGuest, prepareGuest } from './ibverbs/guest.js';
import { RXE_SKIPS } from './ibverbs/rxe-skips.js';

const LIMIT_S = 540;
const COMMANDS = `
sanitized suite verbs 300 conformance.js
suite messaging 230 messaging.js
`;

test('the conformance suites on ibverbs:rxe0', { timeout: (LIMIT_S + 50) * 1000 }, async (t) => {
  try {
    const fault = prepareGuest();
    if (fault !== undefined) {
      t.skip(fault);
      return;
    }
    const suites = new Map<string, string>();
    await inGuest(LIMIT_S, COMMANDS, (line) => {
      t.diagnostic(line);
      const [word, name] = line.split(' ');
      if (word === 'SUITE') suites.set(name, line);
    });
    const count = (suite: string, what: string) => Number(new RegExp(`${what} (\\d+)`).exec(suites.get(suite) ?? '')?.[1] ?? -1);
    await t.test('verbs', () => {
      assert.equal(count('verbs', 'fail'), 0, suites.get('verbs'));
      assert.ok(count('verbs', 'pass') > 200, suites.get('verbs'));
      const listed = RXE_SKIPS.flatMap(({ tests }) => tests).length;
      t.diagnostic(`${count('verbs', 'skipped')} skipped: ${listed} listed, the others by capability`);
    });
    await t.test('messaging', () => {
      assert.equal(count('messaging', 'fail'), 0, suites.get('messaging'));
      assert.ok(count('messaging', 'pass') > 30, suites.get('messaging'));
    });
  } finally {
    dropGuest();
  }
});
