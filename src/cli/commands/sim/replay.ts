/** `verbena sim replay SEED`: plays the run of a seed again, alone or under another fault plan, and makes a failing plan smaller. */

import { readFileSync } from 'node:fs';
import { type FaultPlan, planFault, shrinkPlan } from '../../../verbs/providers/sim/fault-plan.js';
import { playScenario } from '../../../verbs/providers/sim/scenario.js';
import { defineCommand, type Outcome, UsageError } from '../../command.js';
import { planText, runText } from './run-text.js';

/** Reads a plan from a file, or from the words themselves when they are JSON. */
function readPlan(words: string): FaultPlan {
  let plan: FaultPlan;
  try {
    plan = JSON.parse(words.trimStart().startsWith('{') ? words : readFileSync(words, 'utf8')) as FaultPlan;
  } catch (error) {
    throw new UsageError(`--plan takes a fault plan as JSON, or a file with one: ${(error as Error).message}`);
  }
  const fault = Array.isArray(plan?.rules) ? planFault(plan) : 'it has no rules';
  if (fault !== undefined) throw new UsageError(`--plan: ${fault}`);
  return plan;
}

export const replay = defineCommand({
  name: 'replay',
  pure: true,
  summary: 'plays the run of a seed again',
  description:
    `A seed decides everything of a run: how many devices there are, their links, what goes wrong, and which operations they post when. The run is played
twice, so that a difference between the two is noticed. A run that is wrong is played under ever smaller fault plans, and the smallest that still
fails is printed; --plan plays it.`.replace(/\n/g, ' '),
  positionals: [{ name: 'seed', summary: 'what a failing run printed', required: true }],
  options: {
    plan: { type: 'string', value: 'FILE|JSON', summary: "another fault plan than the seed's own" },
    attempts: { type: 'integer', default: 200, min: 1, max: 100_000, summary: 'runs that shrinking may take' },
  },
  examples: [
    { line: 'verbena sim replay 42', note: 'What happens in run 42, and whether it is right.' },
    {
      line: `verbena sim replay 42 --plan '{"seed":1,"rules":[{"kind":"drop","perMillion":50000}]}'`,
      note: 'The same run with 5 % loss.',
    },
  ],
  async run({ options, positionals }): Promise<Outcome> {
    const seed = Number(positionals[0]);
    if (!Number.isSafeInteger(seed) || seed < 0) throw new UsageError(`the seed is a whole number: got '${positionals[0]}'`);
    const plan = options.plan === undefined ? undefined : readPlan(options.plan);
    const result = playScenario(seed, plan);
    const again = playScenario(seed, plan);
    const fault =
      result.traceHash === again.traceHash ? result.fault : `two runs differ: ${result.traceHash} and ${again.traceHash}`;
    const told = { ...result, fault };
    const smallest =
      result.fault === undefined
        ? undefined
        : shrinkPlan(result.plan, (candidate) => playScenario(seed, candidate).fault !== undefined, options.attempts);
    const lines = runText(told);
    if (smallest) lines.push('the smallest plan found that still fails', ...planText(smallest), JSON.stringify(smallest));
    return {
      document: { ...told, ...(smallest && { smallest }) },
      text: lines.join('\n'),
      exitCode: fault === undefined ? 0 : 1,
    };
  },
});
