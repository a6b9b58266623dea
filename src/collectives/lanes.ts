/** The two lanes most algorithms need: what goes out and what comes in, at the same time. */

import type { LaneSpec } from '../schedule/schedule.js';

export const OUT = 0;
export const IN = 1;

export const OUT_IN: readonly LaneSpec[] = [
  { name: 'out', reach: 'any' },
  { name: 'in', reach: 'any' },
];
