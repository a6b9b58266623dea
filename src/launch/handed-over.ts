/**
 * What the launcher hands to a rank through the pipe, kept for init(). In a global symbol, because the script may import another copy of this
 * package than the one that started it.
 */

export interface HandedOver {
  readonly secret: string;
}

const KEY = Symbol.for('verbena.launch.handed-over');

export function keepHandedOver(value: HandedOver): void {
  (globalThis as Record<symbol, unknown>)[KEY] = value;
}

export function takeHandedOver(): HandedOver | undefined {
  return (globalThis as Record<symbol, unknown>)[KEY] as HandedOver | undefined;
}
