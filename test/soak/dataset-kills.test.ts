/** A hundred workers killed at random moments of sorts and joins: every result is that of an undisturbed run, and nothing is left. */

import { LIMIT_MS, runScenario } from '../dataset/run-scenario.js';
import { jobTest } from '../launch/job.js';
import { chooseSeed } from '../processes/harness.js';

const RANKS = 5;
const KILLS = 100;

const seed = chooseSeed();
console.log(`VERBENA_SEED=${seed}`);
for (let round = 0; round < KILLS / (RANKS - 1); round++) {
  jobTest(
    `kills ${round * (RANKS - 1) + 1} to ${(round + 1) * (RANKS - 1)}`,
    (stage) => runScenario(stage, 'kill', RANKS, {}, [String(seed + round)]),
    LIMIT_MS,
  );
}
