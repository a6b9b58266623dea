/** Rank 0, which hands out the tasks, is killed in the middle of a job: everybody else is told so. */

import type { Session } from '../../../src/dataset/index.js';
import { errorOf } from './say.js';

export async function driverDeathScenario(data: Session): Promise<void> {
  let isBegun = false;
  const { code, message } = await errorOf(() =>
    data
      .range(0, 1000, 1, 20)
      .map((i): [number, number] => {
        if (data.isDriver && !isBegun) {
          isBegun = true;
          setImmediate(() => process.kill(process.pid, 'SIGKILL'));
        }
        return [i % 10, i];
      })
      .mapPartitions(async function* (pairs) {
        yield* pairs;
        await new Promise((resolve) => setTimeout(resolve, 50));
      })
      .reduceByKey((a, b) => a + b)
      .collect(),
  );
  const again = await errorOf(() => data.range(10).count());
  process.stdout.write(`${JSON.stringify({ type: 'told', rank: data.rank, code, message, again: again.code })}\n`);
}
