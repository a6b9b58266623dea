/**
 * Loads the addon, once per thread.
 *
 * Nothing happens at import: the first `loadAddon()` of a thread finds (or compiles) the shared object and opens it. A worker
 * thread gets exports of its own from the same mapped code. `VERBENA_ADDON` names a shared object to use as it is, such as
 * one built with sanitizers.
 */
import type { Addon } from './addon.js';
import { ensureAddon, type OptionalAddon, prebuildPath } from './build.js';

let loaded: Addon | undefined;
let loadedPath: string | undefined;

function open(path: string): Addon {
  const holder = { exports: {} };
  process.dlopen(holder, path);
  loadedPath = path;
  return holder.exports as Addon;
}

function openFirstFit(): Addon {
  const override = process.env['VERBENA_ADDON'];
  if (override) return open(override);
  const path = ensureAddon();
  try {
    return open(path);
  } catch (error) {
    // A prebuilt binary may want a newer C library than this machine has; one compiled here does not.
    if (path === prebuildPath()) return open(ensureAddon({ prebuilds: false }));
    throw error;
  }
}

/**
 * The addon's functions. The first call in a thread costs a file lookup and dlopen, or a compile when no binary matches the
 * sources; later calls return the same object. Throws AddonError (see build.ts) when there is no addon to be had.
 */
export function loadAddon(): Addon {
  loaded ??= openFirstFit();
  return loaded;
}

/**
 * The file that `loadAddon` opened in this thread. A worker that is given it as VERBENA_ADDON shares handles with this thread: they are
 * addresses inside that very file's structures.
 */
export function addonPath(): string {
  loadAddon();
  return loadedPath as string;
}

const optional = new Map<string, object>();

/** Path of an addon that only some machines can have, compiled now if need be and not loaded. Throws as loadOptionalAddon. */
export function prepareOptionalAddon(addon: OptionalAddon): string {
  return process.env[`VERBENA_ADDON_${addon.name.toUpperCase()}`] || ensureAddon({ addon });
}

/**
 * Opens an addon that only some machines can have, once per thread; `VERBENA_ADDON_<NAME>` names a shared object to use as it is. Throws AddonError:
 * VERBENA_NO_LIBRARY names the packages to install.
 */
export function loadOptionalAddon<T extends object>(addon: OptionalAddon): T {
  let exports = optional.get(addon.name);
  if (exports === undefined) {
    const holder = { exports: {} };
    process.dlopen(holder, prepareOptionalAddon(addon));
    exports = holder.exports;
    optional.set(addon.name, exports);
  }
  return exports as T;
}
