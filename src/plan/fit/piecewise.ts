/**
 * Time over size, fitted to measurements.
 *
 * One straight line (alpha + n beta) cannot follow a library that changes protocol with size: through a table of 20 sizes it is 15 % off on average. A piecewise
 * line can: between two measured sizes time is taken as straight, beyond the last one the last slope goes on. To say honestly how good that is, each row is predicted
 * by a model that was fitted without it (`leaveOneOut`).
 */
import { PlanRefusal } from '../refusal.js';
import type { MeasuredRow } from './published-tables.js';

/** Seconds by bytes. */
export interface TimeModel {
  /** Seconds for that many bytes. */
  predict(bytes: number): number;
}

/** alpha + n beta with the least sum of squared relative errors. */
export function fitLine(
  rows: readonly MeasuredRow[],
): TimeModel & { readonly alphaSeconds: number; readonly bytesPerSecond: number } {
  if (rows.length < 2) throw new PlanRefusal(`a line needs two measurements, and there are ${rows.length}`, '2');
  // weights 1/t: minimise sum ((a + b n)/t - 1)^2
  let [aa, ab, bb, ay, by] = [0, 0, 0, 0, 0];
  for (const { bytes, seconds } of rows) {
    const [u, w] = [1 / seconds, bytes / seconds];
    aa += u * u;
    ab += u * w;
    bb += w * w;
    ay += u;
    by += w;
  }
  const determinant = aa * bb - ab * ab;
  const alpha = (ay * bb - by * ab) / determinant;
  const beta = (aa * by - ab * ay) / determinant;
  return { alphaSeconds: alpha, bytesPerSecond: 1 / beta, predict: (bytes) => alpha + beta * bytes };
}

/** Straight between neighbours; the first and the last slope go on outside. */
export function fitPiecewise(given: readonly MeasuredRow[]): TimeModel {
  if (given.length < 2) throw new PlanRefusal(`a piecewise line needs two measurements, and there are ${given.length}`, '2');
  const rows = [...given].sort((a, b) => a.bytes - b.bytes);
  return {
    predict(bytes) {
      let i = 1;
      while (i < rows.length - 1 && rows[i].bytes < bytes) i++;
      const [low, high] = [rows[i - 1], rows[i]];
      const slope = (high.seconds - low.seconds) / (high.bytes - low.bytes);
      // below the table a falling line could go under zero: time is never less than half of the first measurement
      return Math.max(low.seconds + slope * (bytes - low.bytes), rows[0].seconds / 2);
    },
  };
}

/** A measured row and what the model says of it; `error` is relative. */
export interface PredictedRow extends MeasuredRow {
  readonly predictedSeconds: number;
  /** (predicted - measured) / measured. */
  readonly error: number;
}

/** Every row predicted by a model fitted on all the others. */
export function leaveOneOut(rows: readonly MeasuredRow[], fit: (rows: readonly MeasuredRow[]) => TimeModel): PredictedRow[] {
  return rows.map((row) => {
    const predictedSeconds = fit(rows.filter((other) => other !== row)).predict(row.bytes);
    return { ...row, predictedSeconds, error: predictedSeconds / row.seconds - 1 };
  });
}
