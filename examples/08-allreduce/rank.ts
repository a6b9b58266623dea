/** What one rank does: a gradient in memory that the others can reach, averaged in place. */

import { Communicator } from '../../src/collectives/index.js';
import { FileStore } from '../../src/launch/index.js';
import { openDevice } from '../../src/verbs/index.js';

const PARAMETERS = 1_000_000;

export async function allreduceAsRank(
  rank: number,
  size: number,
  directory: string,
  print: (line: string) => void,
): Promise<void> {
  const exchange = new FileStore({ directory, size });
  const device = await openDevice('shm');
  const world = await Communicator.create({ rank, size, exchange });

  const gradient = new Float32Array(device.alloc(4 * PARAMETERS), 0, PARAMETERS);
  gradient.fill(rank);
  await world.allreduce(gradient, 'avg');
  const right = gradient.every((value) => value === (size - 1) / 2);

  const losses = Float64Array.of(1 / (rank + 1));
  world.allreduceSync(losses, 'min');

  if (rank === 0) {
    const { selection } = world.explain('allreduce', gradient.byteLength);
    print(
      `${size} ranks averaged ${PARAMETERS} values with ${selection?.algorithm.name}: ${right ? 'right' : 'wrong'} everywhere`,
    );
    print(`smallest loss ${losses[0]}`);
  }
  await world.barrier();
  world.close();
  device.close();
  exchange.close();
}
