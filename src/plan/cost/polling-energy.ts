/**
 * The energy of waiting: a core that polls burns its share of the socket all the time (105 W / 24 cores = 4.4 W, more than the 3.8 W of a whole NIC); an
 * interrupt costs CPU time per event only. Below some rate of events interrupts save energy, and cost latency.
 */
import { requireNumber } from '../refusal.js';

export interface EnergyOptions {
  /** Watts of the socket. Default 105. */
  readonly socketWatts?: number;
  /** Cores of the socket. Default 24. */
  readonly cores?: number;
  /** Watts of the NIC. Default 3.8. */
  readonly nicWatts?: number;
  /** Completions per second. */
  readonly eventsPerSecond: number;
  /** Seconds of CPU per interrupt and wake-up. Default 5e-6. */
  readonly interruptSeconds?: number;
  /** Money per kilowatt hour. Default 0.15. */
  readonly moneyPerKilowattHour?: number;
}

/** Watts of waiting, one way and the other. */
export interface EnergyAnswer {
  readonly pollingWatts: number;
  readonly nicWatts: number;
  readonly interruptWatts: number;
  /** Rate above which interrupts keep the core fully busy too. */
  readonly breakEvenEventsPerSecond: number;
  readonly pollingKilowattHoursPerYear: number;
  readonly savedMoneyPerYear: number;
  readonly advice: 'poll' | 'interrupt';
}

export function pollingEnergy(o: EnergyOptions): EnergyAnswer {
  const core = requireNumber('socketWatts', o.socketWatts ?? 105, 0) / requireNumber('cores', o.cores ?? 24, 1);
  const events = requireNumber('eventsPerSecond', o.eventsPerSecond, 0);
  const perEvent = requireNumber('interruptSeconds', o.interruptSeconds ?? 5e-6, 1e-12);
  const interruptWatts = core * Math.min(1, events * perEvent);
  const hours = 24 * 365.25;
  return {
    pollingWatts: core,
    nicWatts: o.nicWatts ?? 3.8,
    interruptWatts,
    breakEvenEventsPerSecond: 1 / perEvent,
    pollingKilowattHoursPerYear: (core * hours) / 1000,
    savedMoneyPerYear: (((core - interruptWatts) * hours) / 1000) * (o.moneyPerKilowattHour ?? 0.15),
    advice: events * perEvent >= 1 ? 'poll' : 'interrupt',
  };
}
