export { addCounters, type CounterTotals, counterRates, ZERO_COUNTERS } from './counters.js';
export type { DeviceSnapshot, QueuePairSnapshot } from './snapshot.js';
