/** How gradients travel, from the words of the command line. */

import { compressedExchange } from '../../../train/compression/compressed-exchange.js';
import { parseCompression } from '../../../train/compression/compression.js';
import type { MakeExchange, ServerOptimizer } from '../../../train/index.js';
import { localSgdExchange } from '../../../train/local-sgd-exchange.js';
import { parameterServerExchange } from '../../../train/parameter-server/parameter-server-exchange.js';
import { UsageError } from '../../command.js';
import type { TrainingTask } from './training-task.js';

/** Steps between two averages of local SGD. */
const LOCAL_STEPS = 8;

/** When the servers apply gradients, by mode. */
const SERVER_MODES = { ps: 'sync', async: 'async', ssp: 'ssp' } as const;

/** Undefined: the all-reduce that `distribute` takes by itself. `optimizer` is the loop's. @throws UsageError for what does not go together. */
export async function chooseExchange(
  { mode, compress, backups, size, deadlineMs }: Pick<TrainingTask, 'mode' | 'compress' | 'backups' | 'size' | 'deadlineMs'>,
  optimizer: ServerOptimizer,
): Promise<MakeExchange | undefined> {
  if (compress !== undefined && mode !== 'allreduce') {
    throw new UsageError(`--compress goes with --mode allreduce, not with ${mode}: parameter servers and local steps send f32`);
  }
  if (backups > 0 && (mode !== 'ps' || backups >= size))
    throw new UsageError(`--backups ${backups} goes with --mode ps and more ranks than that, not with ${mode} and ${size}`);
  if (deadlineMs !== undefined && mode !== 'allreduce')
    throw new UsageError(
      `--deadline goes with --mode allreduce, not with ${mode}: parameter servers have --backups, the other modes do not wait`,
    );
  if (compress !== undefined) return compressedExchange(compressionOf(compress));
  if (mode === 'allreduce') return undefined;
  if (mode === 'local') return localSgdExchange({ every: LOCAL_STEPS });
  return parameterServerExchange({ mode: SERVER_MODES[mode], optimizer, backups });
}

function compressionOf(text: string): ReturnType<typeof parseCompression> {
  try {
    return parseCompression(text);
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}
