/** The collectives layer: algorithms as schedules, their costs, the choice between them, and the communicator that runs them. */

export * from './algorithm.js';
export * from './calibration.js';
export type { CommunicatorOptions } from './collective-calls.js';
export * from './communicator.js';
export type { ElementType, Reduction, UserReduction, Vector } from './element.js';
export * from './errors.js';
export type { Exchange } from './exchange.js';
export type { CallCounters, ExecutorKind, RunTimes } from './executor.js';
export type { ExecutorChoice } from './ground.js';
export { LOCAL_MACHINE } from './local-machine.js';
export * from './machine.js';
export * from './order.js';
export * from './override.js';
export { type CollectiveOptions, PreparedCall, startAll } from './prepared-call.js';
export * from './registry.js';
export type { Counts, PairCounts } from './request.js';
export * from './selection.js';
export type { Method } from './shared-memory/call.js';
export { tunedMachine, tunedMachinePath, writeTunedMachine } from './tuned-machine.js';
