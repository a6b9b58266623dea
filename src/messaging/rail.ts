/**
 * A rail: one device of a context, with its protection domain, its registration cache and what its link costs. A context of shared memory and a network
 * has two, one of two NICs too. Rails are numbered; the numbers travel in packed keys, so a key says which of its parts belongs to which device.
 */

import type { Device, ProtectionDomain } from '../verbs/index.js';
import { RegistrationCache, type RegistrationCacheOptions } from './memory/registration-cache.js';
import { defaultCosts } from './protocols/costs.js';
import type { Costs } from './protocols/protocol.js';
import { readTuned } from './protocols/tuned-costs.js';

/** Devices of a context at most. */
export const MOST_RAILS = 8;

export class Rail {
  readonly index: number;
  readonly device: Device;
  readonly pd: ProtectionDomain;
  readonly registrations: RegistrationCache;
  readonly costs: Costs;

  constructor(index: number, device: Device, registrations: RegistrationCacheOptions | undefined, costs: Partial<Costs> = {}) {
    this.index = index;
    this.device = device;
    this.pd = device.allocPd();
    this.registrations = new RegistrationCache(this.pd, registrations);
    this.costs = { ...defaultCosts(device.provider), ...readTuned(device.provider), ...costs };
  }

  /** Peers on this machine map its memory; nobody else can be reached. */
  get isLocal(): boolean {
    return this.device.capabilities.directAccess;
  }
}
