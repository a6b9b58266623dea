/** `verbena bench`: the benchmarks of each layer. */

import type { CommandGroup } from '../../command.js';
import { collectiveBenches } from '../collectives/bench-collective.js';
import { benchVerbs } from './verbs.js';

export const bench: CommandGroup = {
  name: 'bench',
  summary: 'measures Verbena and other systems side by side',
  commands: [benchVerbs, ...collectiveBenches],
  examples: benchVerbs.examples,
};
