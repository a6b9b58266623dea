/** `verbena bench`: the benchmarks of each layer. */

import type { CommandGroup } from '../../command.js';
import { collectiveBenches } from '../collectives/bench-collective.js';
import { benchCollectives } from '../collectives/bench-collectives.js';
import { datasetBenches } from '../dataset/bench-dataset.js';
import { benchMessaging } from '../messaging/bench-messaging.js';
import { benchPatterns } from '../messaging/bench-patterns.js';
import { benchRpc } from '../messaging/bench-rpc.js';
import { benchTrain } from '../train/bench-train.js';
import { benchCompression } from '../train-exchange/bench-compression.js';
import { benchPs } from '../train-exchange/bench-ps.js';
import { benchVerbs } from './verbs.js';

export const bench: CommandGroup = {
  name: 'bench',
  summary: 'measures Verbena and other systems side by side',
  commands: [
    benchVerbs,
    ...benchMessaging,
    benchPatterns,
    benchRpc,
    benchCollectives,
    ...collectiveBenches,
    ...datasetBenches,
    benchTrain,
    benchPs,
    benchCompression,
  ],
  examples: benchVerbs.examples,
};
