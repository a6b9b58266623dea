/**
 * Amdahl and Gustafson: how much p workers help when a part of the work is serial.
 *
 * Amdahl keeps the problem: 1 / (s + (1 - s)/p), never above 1/s. Gustafson lets it grow with the workers: s + (1 - s) p. The parameter is the
 * `serialFraction` in both, because half the literature calls the parallel part f and the other half the serial one.
 */
import { requireInteger, requireNumber } from '../refusal.js';

/** Speed-up by both laws, at one number of workers. */
export interface SpeedupAnswer {
  readonly amdahl: number;
  readonly gustafson: number;
  /** Amdahl's ceiling: 1 / serialFraction. */
  readonly limit: number;
  /** Amdahl's speed-up per worker. */
  readonly efficiency: number;
}

/** @param serialFraction share of the work that cannot be divided, 0..1 */
export function speedup(serialFraction: number, workers: number): SpeedupAnswer {
  const s = requireNumber('serialFraction', serialFraction, 0, 1);
  const p = requireInteger('workers', workers, 1);
  const amdahl = 1 / (s + (1 - s) / p);
  return { amdahl, gustafson: s + (1 - s) * p, limit: s === 0 ? Number.POSITIVE_INFINITY : 1 / s, efficiency: amdahl / p };
}

/** Workers at which Amdahl's efficiency falls to `efficiency`: (1 - e) / (e s) + 1, in whole workers. */
export function workersAtEfficiency(serialFraction: number, efficiency: number): number {
  const s = requireNumber('serialFraction', serialFraction, 0, 1);
  const e = requireNumber('efficiency', efficiency, 1e-9, 1);
  return s === 0 ? Number.POSITIVE_INFINITY : Math.floor((1 - e) / (e * s) + 1 + 1e-9);
}
