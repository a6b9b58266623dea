/**
 * Opening a device by name. A provider is one entry in this table; 'auto' is just one more that tries the others in order.
 */

import type { Device, DeviceOptions } from './device.js';
import { VerbsError } from './errors.js';

/** A way to get devices. Its device is loaded when one is opened: ranks ask every provider whether it works. */
export interface Provider {
  readonly name: string;
  /** What it is, one line. */
  readonly summary: string;
  /** undefined when it works on this machine, else a sentence that says why not and what to do. */
  unavailable(): Promise<string | undefined>;
  /** @param device what followed the colon in 'name:device', or undefined. */
  open(device: string | undefined, options: DeviceOptions): Promise<Device>;
}

const PROVIDERS: Readonly<Record<string, () => Promise<Provider>>> = {
  shm: async () => (await import('./providers/shm/provider.js')).shmProvider,
  sim: async () => (await import('./providers/sim/provider.js')).simProvider,
  roce: async () => (await import('./providers/roce/provider.js')).roceProvider,
  ibverbs: async () => (await import('./providers/ibverbs/provider.js')).ibverbsProvider,
};

/** What 'auto' tries, best first: fabrics that reach another process. Ranks choose for each pair instead (launch/selector.ts). */
const AUTOMATIC: readonly string[] = ['shm', 'ibverbs', 'roce'];

/** Names that `openDevice` takes. */
export function providerNames(): string[] {
  return Object.keys(PROVIDERS);
}

/** A provider by name. Throws VERBS_NO_DEVICE for an unknown one. */
export async function getProvider(name: string): Promise<Provider> {
  const load = PROVIDERS[name];
  if (!load) {
    throw new VerbsError('VERBS_NO_DEVICE', `there is no provider '${name}': use ${providerNames().join(', ')} or auto`);
  }
  return load();
}

let isFallbackSaid = false;

/**
 * The first provider that works here. Taking another than the first is a fallback, which the process is warned of once.
 * Throws VERBS_NO_DEVICE with all reasons when none works.
 */
export async function firstThatWorks(
  names: readonly string[],
  load: (name: string) => Promise<Pick<Provider, 'unavailable'>> = getProvider,
): Promise<string> {
  const reasons: string[] = [];
  for (const name of names) {
    const reason = await (await load(name)).unavailable();
    if (reason !== undefined) {
      reasons.push(`${name}: ${reason}`);
      continue;
    }
    if (reasons.length > 0 && !isFallbackSaid) {
      isFallbackSaid = true;
      const options = { type: 'VerbenaWarning', code: 'VERBENA_FALLBACK' };
      process.emitWarning(`'auto' opened ${name} instead of what does not work here. ${reasons.join(' ')}`, options);
    }
    return name;
  }
  throw new VerbsError('VERBS_NO_DEVICE', `no provider works here. ${reasons.join(' ')}`);
}

/**
 * Opens a device: 'shm', 'sim', 'ibverbs:rxe0', or 'auto' (the best provider that works here and reaches other processes: shared memory where there is any).
 * Throws VERBS_NO_DEVICE with the reason and what to do.
 */
export async function openDevice(name = 'auto', options: DeviceOptions = {}): Promise<Device> {
  if (name === 'auto') return openDevice(await firstThatWorks(AUTOMATIC), options);
  const colon = name.indexOf(':');
  const provider = await getProvider(colon < 0 ? name : name.slice(0, colon));
  const reason = await provider.unavailable();
  if (reason !== undefined) throw new VerbsError('VERBS_NO_DEVICE', `${provider.name} cannot be used here: ${reason}`);
  return provider.open(colon < 0 ? undefined : name.slice(colon + 1), options);
}
