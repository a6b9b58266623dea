/** How gradients travel, from the words of the command line. */

import {
  compressedExchange,
  localSgdExchange,
  type MakeExchange,
  parameterServerExchange,
  parseCompression,
  type ServerOptimizer,
} from '../../../train/index.js';
import { UsageError } from '../../command.js';
import type { Mode } from './training-task.js';

/** Steps between two averages of local SGD. */
const LOCAL_STEPS = 8;

/** When the servers apply gradients, by mode. */
const SERVER_MODES = { ps: 'sync', async: 'async', ssp: 'ssp' } as const;

/** Undefined: the all-reduce that `distribute` takes by itself. `optimizer` is the loop's. @throws UsageError for what does not go together. */
export async function chooseExchange(
  mode: Mode,
  compress: string | undefined,
  optimizer: ServerOptimizer,
): Promise<MakeExchange | undefined> {
  if (compress !== undefined && mode !== 'allreduce') {
    throw new UsageError(`--compress goes with --mode allreduce, not with ${mode}: parameter servers and local steps send f32`);
  }
  if (compress !== undefined) return compressedExchange(compressionOf(compress));
  if (mode === 'allreduce') return undefined;
  if (mode === 'local') return localSgdExchange({ every: LOCAL_STEPS });
  return parameterServerExchange({ mode: SERVER_MODES[mode], optimizer });
}

function compressionOf(text: string): ReturnType<typeof parseCompression> {
  try {
    return parseCompression(text);
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}
