/** `verbena explain ranks`: which engine, provider and network address ranks started here would take, and why. */

import { choicesOf, explainChoices } from '../../../launch/explanation.js';
import { describeSelf } from '../../../launch/host.js';
import { availableProviders } from '../../../launch/selector.js';
import { defineCommand } from '../../command.js';

export const explainRanks = defineCommand({
  name: 'ranks',
  summary: 'which engine, provider and network address ranks take, and why',
  description:
    'For rank 0 here, rank 1 beside it, and rank 2 on another host that is like this one. In a program: world.explain() says it for the ranks there are.',
  options: {},
  examples: [{ line: 'verbena explain ranks', note: 'VERBENA_INTERFACE and VERBENA_ENGINE count as they do for ranks.' }],
  async run() {
    const { VERBENA_INTERFACE: wanted, VERBENA_ENGINE: engine } = process.env;
    const self = describeSelf(0, 0, { interface: wanted, engine });
    const elsewhere = { id: 'another', machine: 'another', boot: 'another', name: 'another host' };
    const members = [self, { ...self, rank: 1 }, { ...self, rank: 2, host: elsewhere }];
    const choices = choicesOf(0, members, await availableProviders(), wanted);
    return { document: choices, text: () => explainChoices(choices) };
  },
});
