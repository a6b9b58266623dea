import assert from 'node:assert/strict';
import { it } from 'node:test';
import { openContext } from '../../messaging/index.js';
import { ReplicaWriter, replicaBytes, restoreReplica } from './replica.js';
import { Shard } from './shard.js';

const PARAMETERS = 300;
const RANGES = [{ name: 'w', shape: [PARAMETERS], from: 0, to: PARAMETERS, decay: false }];
const SHAPE = { workers: 2, parameters: PARAMETERS, state: 2 * PARAMETERS };

const make = () =>
  new Shard(new Float32Array(PARAMETERS), {
    mode: 'async',
    staleness: 0,
    backups: 0,
    workers: 2,
    optimizer: { kind: 'adam' },
    ranges: RANGES,
  });

it('a replica has the state of the last complete write, whatever a half-written one left', async () => {
  const context = await openContext({ device: 'shm' });
  try {
    const [guard, owner] = [await context.createWorker(), await context.createWorker()];
    const memory = context.alloc(replicaBytes(SHAPE));
    const exposed = guard.expose(memory);
    const endpoint = owner.connect(guard.address);
    await endpoint.ready();
    const writer = new ReplicaWriter(endpoint, exposed.pack(), SHAPE);

    assert.equal(restoreReplica(memory, SHAPE, make()), false, 'nothing was written yet');
    const shard = make();
    const states: { parameters: Float32Array; state: Float32Array; clocks: Float64Array; steps: number }[] = [];
    for (let step = 0; step < 5; step++) {
      shard.push(
        step % 2,
        Math.floor(step / 2),
        1,
        0.1,
        Float32Array.from({ length: PARAMETERS }, (_, i) => Math.sin(i + step)),
      );
      shard.apply();
      shard.grants();
      await writer.write(shard);
      const { optimizer } = shard;
      states.push({
        parameters: shard.parameters.slice(),
        state: optimizer.state.slice(),
        clocks: shard.clocks.slice(),
        steps: optimizer.steps,
      });
      const before = memory.slice();
      const check = (expected: (typeof states)[number] | undefined) => {
        const restored = make();
        assert.equal(restoreReplica(memory, SHAPE, restored), expected !== undefined);
        if (expected === undefined) return;
        assert.deepEqual(restored.parameters, expected.parameters);
        assert.deepEqual(restored.optimizer.state, expected.state);
        assert.deepEqual(restored.clocks, expected.clocks);
        assert.equal(restored.optimizer.steps, expected.steps);
      };
      check(states[step]);
      // The next write dies in the middle: its slot holds anything, but not its version.
      const half = memory.length / 2;
      const next = (step + 2) % 2;
      const version = memory.slice(next * half, next * half + 8);
      memory.fill(0xa5, next * half, (next + 1) * half);
      memory.set(version, next * half);
      check(states[step]);
      memory.set(before);
    }
  } finally {
    await context.close();
  }
});
