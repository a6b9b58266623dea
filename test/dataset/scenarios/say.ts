/** How a scenario reports. */

import type { Session } from '../../../src/dataset/index.js';

/** One line of JSON, from the driver only. */
export function say(data: Session, type: string, words: Record<string, unknown> = {}): void {
  if (data.isDriver) process.stdout.write(`${JSON.stringify({ type, ...words })}\n`);
}

/** The message of the error that an action ends with. */
export async function errorOf(action: () => Promise<unknown>): Promise<{ code: string; message: string }> {
  try {
    await action();
  } catch (error) {
    const { code, message } = error as Error & { code?: string };
    return { code: code ?? '', message };
  }
  return { code: 'none', message: 'it ended well' };
}
