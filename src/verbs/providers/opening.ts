/** What every provider of this machine's own does before it opens a device. */

import { basename } from 'node:path';
import type { DeviceOptions } from '../device.js';
import { VerbsError } from '../errors.js';

/** Why a provider does not work here: not on Linux, or what `attempt` throws; undefined when it works. */
export async function whyUnavailable(attempt: () => void): Promise<string | undefined> {
  if (process.platform !== 'linux') return `it needs Linux, and this is ${process.platform}.`;
  try {
    attempt();
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/** The name of a device. Throws VERBS_INVALID for an option that means nothing to its provider. */
export function nameOf(options: DeviceOptions, provider: string, known: readonly string[] = ['name']): string {
  for (const name of Object.keys(options)) {
    if (known.includes(name)) continue;
    throw new VerbsError('VERBS_INVALID', `${provider} has no option '${name}': it has ${known.join(', ')}`);
  }
  return options.name ?? basename(process.argv[1] ?? 'node');
}
