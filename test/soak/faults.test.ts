/** The fault rounds of test/processes, for ten minutes. */

import { faultRounds } from '../processes/fault-rounds.js';
import { chooseSeed, processTest } from '../processes/harness.js';

processTest(
  'hundreds of killed, stopped and terminated peers',
  async (hand) => {
    const seed = chooseSeed();
    console.log(`VERBENA_SEED=${seed}`);
    const limits = { rounds: 2000, least: 1, budgetMs: 600_000, faults: ['kill', 'kill', 'stop', 'terminate'] } as const;
    const { rounds, slowestMs } = await faultRounds(hand, seed, limits);
    console.log(`${rounds} rounds, the slowest notice took ${slowestMs.toFixed(0)} ms`);
  },
  900_000,
);
