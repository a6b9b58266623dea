/** The model of the tests of parameter servers: worker w pulls every parameter towards a place of its own. */
import type { ServerSettings } from '../../../src/train/parameter-server/group.js';

export interface Job {
  readonly floats: number;
  readonly steps: number;
  readonly servers: readonly number[];
  readonly workers: readonly number[];
  readonly settings: ServerSettings;
  /** Workers that take their time. */
  readonly slow?: readonly number[];
  /** Gradients do not depend on anything: worker w always pushes w + 1. */
  readonly constant?: boolean;
  /** Worker 1 stops after its first step until worker 0 is that many steps ahead. */
  readonly gate?: number;
  /** Say every step. */
  readonly tellSteps?: boolean;
  /** Ranks that will be killed. */
  readonly dying?: readonly number[];
}

export const RATE = 0.125;

export function weightOf(worker: number): number {
  return worker + 1;
}

export function initial(floats: number): Float32Array {
  return Float32Array.from({ length: floats }, (_, i) => Math.cos(i));
}

export function bowl(parameters: Float32Array, gradients: Float32Array, worker: number, step: number): void {
  for (let i = 0; i < parameters.length; i++) {
    gradients[i] = parameters[i] - Math.sin(i * (worker + 1)) + 0.01 * ((step + i) % 5);
  }
}

/** Three tensors, one of them without decay. */
export function rangesOf(floats: number): { name: string; shape: number[]; from: number; to: number; decay: boolean }[] {
  const ends = [Math.floor(floats / 3), Math.floor(floats / 2), floats];
  return ends.map((to, i) => {
    const from = i === 0 ? 0 : ends[i - 1];
    return { name: `t${i}`, shape: [to - from], from, to, decay: i !== 1 };
  });
}
