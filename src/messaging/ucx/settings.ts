/**
 * Settings of UCX that stand in the name of a device: 'ucx:TLS=tcp;NET_DEVICES=eth0'. UCX takes what it does not know in silence, since a transport that is
 * loaded later might know it; and before 1.18 it takes settings of transports and ignores them. So names are compared with those that UCX has.
 */

import { closest } from '../../native/nearest.js';
import { MessagingError } from '../errors.js';
import type { Pointer, UcxAddon } from './addon.js';

/** The n of UCX 1.n; of a later one no end. */
function minorOf(addon: UcxAddon): number {
  const [major, minor] = addon.version().split('.').map(Number);
  return major === 1 ? minor : Number.POSITIVE_INFINITY;
}

/** Whether this UCX tells its transports what a context is told. */
function tellsTransports(addon: UcxAddon): boolean {
  return minorOf(addon) >= 18;
}

/**
 * The newer protocols of UCX, its default from 1.16 on, have no atomics for endpoints that notice a lost peer, unless the network has them; the older ones are whole up to 1.20.
 */
function hasTwoGenerations(addon: UcxAddon): boolean {
  const minor = minorOf(addon);
  return minor >= 16 && minor <= 20;
}

/** What a context can be told, what transports have, what UCX reads when it is loaded; nothing where that is not known. */
function settingNames(addon: UcxAddon): [ofContexts: string[], ofTransports: string[], readAtLoad: string[]] {
  const [ofContexts, ofTransports, readAtLoad] = [0, 1, 2].map((whose) => addon.settingNames(whose)?.trimEnd().split('\n') ?? []);
  return [ofContexts, ofTransports, readAtLoad];
}

let isChecked = false;

/** Warns, once, of variables of the environment that look like settings and are none: UCX would, but for its log level (addon.ts). */
function checkEnvironment(addon: UcxAddon): void {
  if (isChecked) return;
  isChecked = true;
  const set = Object.keys(process.env).filter((name) => name.startsWith('UCX_'));
  const known = settingNames(addon).flat();
  if (known.length === 0) return;
  for (const name of set) {
    if (known.includes(name.slice(4))) continue;
    const words = `UCX has no setting ${name}: did you mean UCX_${closest(name.slice(4), known)}?`;
    process.emitWarning(`${words} ucx_info -cf lists all`, { code: 'VERBENA_UCX_SETTING' });
  }
}

export class UcxSettings {
  readonly #settings: readonly (readonly [name: string, value: string])[];

  /** Throws MSG_INVALID. */
  constructor(text: string) {
    this.#settings = text
      .split(';')
      .filter((part) => part !== '')
      .map((part) => {
        const at = part.indexOf('=');
        if (at < 1)
          throw new MessagingError('MSG_INVALID', `'${part}' is no setting of UCX: write 'ucx:TLS=tcp;NET_DEVICES=eth0'`);
        return [part.slice(0, at).replace(/^UCX_/, ''), part.slice(at + 1)];
      });
  }

  /** What UCX is told, by the name of the device or by the environment. */
  get(setting: string): string | undefined {
    return this.#settings.find(([name]) => name === setting)?.[1] ?? process.env[`UCX_${setting}`];
  }

  /** A context with these settings, or a ucs_status_t. Throws MSG_INVALID for a setting that UCX does not know, or not with this value. */
  open(addon: UcxAddon): Pointer {
    checkEnvironment(addon);
    if (this.#settings.length > 0) this.#check(addon);
    const older = hasTwoGenerations(addon) && this.get('PROTO_ENABLE') === undefined ? ['PROTO_ENABLE', 'n'] : [];
    const context = addon.contextOpen([...this.#settings.flat(), ...older]);
    if (context > -100) return context;
    const [name, value] = this.#settings[-100 - context];
    throw new MessagingError('MSG_INVALID', `'${value}' is no value of UCX's setting ${name}: see ucx_info -cf`);
  }

  #check(addon: UcxAddon): void {
    const [ofContexts, ofTransports] = settingNames(addon);
    if (ofContexts.length === 0) return;
    for (const [name, value] of this.#settings) {
      if (ofContexts.includes(name)) continue;
      if (!ofTransports.includes(name)) {
        const words = `UCX has no setting '${name}' for a context: did you mean ${closest(name, [...ofContexts, ...ofTransports])}?`;
        throw new MessagingError(
          'MSG_INVALID',
          `${words} ucx_info -cf lists all; those of the whole process go into the environment`,
        );
      }
      if (tellsTransports(addon)) continue;
      const words = `${name} is a setting of a transport, which UCX ${addon.version()} takes from the environment alone`;
      throw new MessagingError('MSG_INVALID', `${words}: start the process with UCX_${name}=${value}`);
    }
  }
}
