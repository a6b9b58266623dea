/** `verbena sim`: runs of the simulated fabric that a seed decides, to find failures, to play them again, and to see how large a fabric may be. */

import type { CommandGroup } from '../../command.js';
import { replay } from './replay.js';
import { scale } from './scale.js';
import { search } from './search.js';

export const sim: CommandGroup = {
  name: 'sim',
  summary: 'plays random operations under random faults on virtual time; a seed plays a run again',
  commands: [replay, search, scale],
  examples: [...replay.examples, ...search.examples, ...scale.examples],
};
