import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ZERO_COUNTERS } from '../../../observe/index.js';
import { openDevice } from '../../../verbs/index.js';
import type { ContextView } from '../../../verbs/providers/shm/inspect.js';
import { findDevices, snapshots } from './devices.js';

const CONTEXT: ContextView = {
  id: '1:a',
  completionQueues: [],
  pid: 1,
  threadId: 1,
  name: 'x',
  segmentBytes: 0,
  queuePairs: [],
  totals: ZERO_COUNTERS,
};

describe('Devices seen from outside', () => {
  it('of one process with one name are told apart', () => {
    const keys = snapshots([CONTEXT, { ...CONTEXT, id: '1:b' }, { ...CONTEXT, id: '2:a', pid: 2 }]).map(({ key }) => key);
    assert.equal(new Set(keys).size, 3);
  });

  it('connected queue pairs say where they lead, others do not', () => {
    const pair = { qpNum: 1, state: 'RTS', destQpNum: 9, counters: ZERO_COUNTERS } as const;
    const [device] = snapshots([
      {
        ...CONTEXT,
        queuePairs: [
          { ...pair, type: 'RC' },
          { ...pair, type: 'UD' },
        ],
      },
    ]);
    assert.deepEqual(
      device.queuePairs.map(({ destination }) => destination),
      [9, undefined],
    );
  });

  it('include those of this very process, each once, until closed', async () => {
    const named = () => findDevices().filter(({ name, pid }) => name === 'seen from outside' && pid === process.pid);
    const device = await openDevice('shm', { name: 'seen from outside' });
    assert.equal(named().length, 1);
    device.close();
    assert.equal(named().length, 0);
  });
});
