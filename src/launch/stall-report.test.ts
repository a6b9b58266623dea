import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { missingRanks, stallReport, type Whereabouts } from './stall-report.js';

const waiting = (site: string, peer = -1, detail = -1, ageMs = 5000): Whereabouts => ({
  state: 'waiting',
  wait: { site, peer, detail, ageMs },
});
const world = (...where: Whereabouts[]) => new Map(where.entries());

describe('who is missing', () => {
  it('in a call of everybody: the ranks that are not in it', () => {
    assert.deepEqual(missingRanks(world(waiting('barrier'), { state: 'elsewhere' }, waiting('barrier'))), [1]);
  });

  it('in a receive: the rank it waits for', () => {
    assert.deepEqual(missingRanks(world(waiting('receive', 2, 7), { state: 'elsewhere' }, { state: 'elsewhere' })), [2]);
  });

  it('is the cause and not who waits for the cause', () => {
    assert.deepEqual(missingRanks(world(waiting('barrier'), waiting('receive', 2), { state: 'elsewhere' })), [2]);
  });

  it('is everybody involved when calls do not match: allreduce 3 here, allreduce 4 there', () => {
    assert.deepEqual(missingRanks(world(waiting('allreduce', -1, 3), waiting('allreduce', -1, 4))), [0, 1]);
  });

  it('is nobody in particular when a receive takes messages from anyone', () => {
    const where = world(waiting('receive', -2, 7), { state: 'elsewhere' });
    assert.deepEqual(missingRanks(where), []);
    assert.match(stallReport(where), /message that nobody sends\n {2}rank 0: in receive #7 with anyone for 5\.0 s/);
  });

  it('is nobody when two wait for each other: then it is a deadlock and the report says so', () => {
    const where = world(waiting('receive', 1), waiting('receive', 0));
    assert.deepEqual(missingRanks(where), []);
    assert.match(stallReport(where), /everybody waits/);
  });
});

it('the report names the missing, and where each rank is', () => {
  const report = stallReport(
    world(waiting("barrier 'start'"), { state: 'elsewhere' }, waiting("barrier 'start'", -1, -1, 7250), {
      state: 'lost',
      reason: 'killed',
    }),
  );
  assert.equal(
    report,
    [
      'stalled for 7.3 s: waiting for ranks 1, 3',
      "  ranks 0, 2: in barrier 'start' for 7.3 s",
      '  rank 1: in no call of Verbena: computing, or blocked in code of its own',
      '  rank 3: lost: killed',
    ].join('\n'),
  );
});
