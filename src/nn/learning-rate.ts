/**
 * Learning-rate schedules: pure functions of the step, counted from 0. So a resumed run continues exactly where it was, and every rank
 * computes the same rate.
 */
export type LearningRate = (step: number) => number;

function checkSteps(what: string, steps: number): void {
  if (!Number.isSafeInteger(steps) || steps < 1) throw new RangeError(`${what} must be an integer of at least 1, not ${steps}`);
}

/** Always `rate`. */
export function constantRate(rate: number): LearningRate {
  return () => rate;
}

/** `rate`, multiplied by `factor` after every `every` steps. */
export function stepRate(rate: number, options: { every: number; factor: number }): LearningRate {
  checkSteps('every', options.every);
  return (step) => rate * options.factor ** Math.floor(step / options.every);
}

/** Half a cosine from `rate` at step 0 to `last` (default 0) at step `steps`, and `last` afterwards. */
export function cosineRate(rate: number, options: { steps: number; last?: number }): LearningRate {
  const { steps, last = 0 } = options;
  checkSteps('steps', steps);
  return (step) => last + 0.5 * (rate - last) * (1 + Math.cos(Math.PI * Math.min(step / steps, 1)));
}

/** Rises in a straight line over the first `steps` steps to where `after` starts, then follows `after`, counted from there. */
export function warmUp(after: LearningRate, options: { steps: number }): LearningRate {
  checkSteps('steps', options.steps);
  return (step) => (step < options.steps ? (after(0) * (step + 1)) / options.steps : after(step - options.steps));
}
