/** A run of the simulated fabric in words. */

import type { FaultPlan, FaultRule } from '../../../verbs/providers/sim/fault-plan.js';
import type { ScenarioResult } from '../../../verbs/providers/sim/scenario.js';

/** 'drop: perMillion 1500', 'kill: device 2, atNs 40000'. */
function ruleText({ kind, ...rest }: FaultRule): string {
  const values = Object.entries(rest).map(([name, value]) => `${name} ${Array.isArray(value) ? value.join('+') : String(value)}`);
  return values.length === 0 ? kind : `${kind}: ${values.join(', ')}`;
}

export function planText(plan: FaultPlan): string[] {
  const rules = plan.rules.map((rule) => `  ${ruleText(rule)}`);
  return [`fault plan, seed ${plan.seed}:`, ...(rules.length > 0 ? rules : ['  nothing goes wrong'])];
}

export function runText(result: ScenarioResult): string[] {
  const { seed, devices, packets, events, failedSides, traceHash, fault } = result;
  const sides = `${failedSides} of ${2 * devices} sides ended in an error that the faults forced`;
  return [
    `seed ${seed}: ${devices} devices, ${packets} packets, ${events} events, trace ${traceHash}`,
    ...planText(result.plan),
    fault === undefined
      ? `right: every operation happened once, in order, in its place, or ended in a correct error (${sides})`
      : `WRONG: ${fault}`,
  ];
}
