/** `verbena train`: real training, on real data, by several processes. */

import type { CommandGroup } from '../../command.js';
import { mnist } from './mnist.js';

export const train: CommandGroup = {
  name: 'train',
  summary: 'trains a network on several processes together',
  commands: [mnist],
  examples: mnist.examples,
};
