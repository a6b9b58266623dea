/**
 * How often to write a checkpoint: often enough that a failure loses little, seldom enough that writing costs little.
 *
 * Young (1974): sqrt(2 d M), d the cost of a checkpoint, M the mean time between failures of the whole job. Daly (2006) adds two terms that
 * matter when d is no longer small against M.
 */

export interface IntervalInput {
  /** Seconds that a checkpoint costs the training: its stall, not the time of the background thread. Above 0. */
  readonly checkpointSeconds: number;
  /** Mean seconds between failures of ONE worker; above 0. */
  readonly workerMtbfSeconds: number;
  /** Workers: any of them stops the job. At least 1. Default 1. */
  readonly workers?: number;
  /** Seconds to restart and load. Default 0. */
  readonly restartSeconds?: number;
}

/** How often to write a checkpoint, by Young and by Daly. */
export interface SuggestedInterval {
  /** Between two checkpoints, seconds. */
  readonly youngSeconds: number;
  readonly dalySeconds: number;
  /** Share of the time that is lost with Daly's interval: writing, and work that is done again. */
  readonly lostShare: number;
}

/** @throws RangeError for a bad number. */
export function suggestInterval(input: IntervalInput): SuggestedInterval {
  const { checkpointSeconds: cost, workerMtbfSeconds, workers = 1, restartSeconds = 0 } = input;
  if (!(cost > 0) || !(workerMtbfSeconds > 0)) throw new RangeError('checkpointSeconds and workerMtbfSeconds must be above 0');
  if (!Number.isSafeInteger(workers) || workers < 1)
    throw new RangeError(`workers must be an integer of at least 1, not ${workers}`);
  if (!(restartSeconds >= 0)) throw new RangeError(`restartSeconds must be at least 0, not ${restartSeconds}`);
  const mtbf = workerMtbfSeconds / workers;
  const youngSeconds = Math.sqrt(2 * cost * mtbf);
  const x = cost / (2 * mtbf);
  const dalySeconds = cost < 2 * mtbf ? youngSeconds * (1 + Math.sqrt(x) / 3 + x / 9) - cost : mtbf;
  const lostShare = Math.min(1, cost / (dalySeconds + cost) + (restartSeconds + (dalySeconds + cost) / 2) / mtbf);
  return { youngSeconds, dalySeconds, lostShare };
}
