/**
 * A refusal: the planner's answer to a question that has no answer.
 *
 * Every refusal says why, and where one exists names the nearest legal value, so that whoever asked can ask again
 * without opening the documentation.
 */
export class PlanRefusal extends Error {
  override readonly name = 'PlanRefusal';
  /** Stable code, the same for every refusal of the planner. */
  readonly code = 'VERBENA_PLAN_REFUSED';
  /** What is wrong, in one sentence. */
  readonly reason: string;
  /** The nearest legal value, when there is one. */
  readonly nearest: string | undefined;

  constructor(reason: string, nearest?: string) {
    super(nearest === undefined ? reason : `${reason}; nearest legal value: ${nearest}`);
    this.reason = reason;
    this.nearest = nearest;
  }
}

/** Checks an integer in `minimum..maximum` (both included) and returns it; refuses with the nearest legal integer. */
export function requireInteger(what: string, value: number, minimum: number, maximum = Number.MAX_SAFE_INTEGER): number {
  if (Number.isInteger(value) && value >= minimum && value <= maximum) return value;
  const near = Number.isFinite(value) ? Math.min(maximum, Math.max(minimum, Math.round(value))) : minimum;
  const range = maximum === Number.MAX_SAFE_INTEGER ? `at least ${minimum}` : `from ${minimum} to ${maximum}`;
  throw new PlanRefusal(`${what} is ${value}, and must be an integer ${range}`, String(near));
}

/** Checks a finite number in `minimum..maximum` (both included) and returns it; refuses with the nearest bound. */
export function requireNumber(what: string, value: number, minimum: number, maximum = Number.POSITIVE_INFINITY): number {
  if (Number.isFinite(value) && value >= minimum && value <= maximum) return value;
  const near = value > maximum ? maximum : minimum;
  const range = maximum === Number.POSITIVE_INFINITY ? `at least ${minimum}` : `from ${minimum} to ${maximum}`;
  throw new PlanRefusal(`${what} is ${value}, and must be a number ${range}`, String(near));
}
