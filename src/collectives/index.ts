/** The collectives layer: algorithms as schedules, their costs, and the choice between them. */

export * from './algorithm.js';
export * from './machine.js';
export * from './order.js';
export * from './override.js';
export * from './registry.js';
export * from './selection.js';
