/** How gradients travel, from the words of the command line. */

import { localSgdExchange, type MakeExchange } from '../../../train/index.js';
import { UsageError } from '../../command.js';
import type { Mode } from './training-task.js';

/** Steps between two averages of local SGD. */
const LOCAL_STEPS = 8;

/** Undefined: the all-reduce that `distribute` takes by itself. @throws UsageError for what does not go together. */
export async function chooseExchange(mode: Mode, compress: string | undefined): Promise<MakeExchange | undefined> {
  if (compress !== undefined) throw new UsageError(`--compress ${compress} is not there yet`);
  if (mode === 'local') return localSgdExchange({ every: LOCAL_STEPS });
  if (mode !== 'allreduce') throw new UsageError(`--mode ${mode} is not there yet`);
  return undefined;
}
