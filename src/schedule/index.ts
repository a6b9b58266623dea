/** The schedule layer: pure, without I/O, used by every layer above. */

export * from './compose.js';
export * from './contract.js';
export * from './draw.js';
export * from './encoding.js';
export * from './engine.js';
export * from './instruction.js';
export * from './interpreter.js';
export * from './one-port.js';
export * from './pipeline.js';
export * from './prover.js';
export * from './reference.js';
export * from './schedule.js';
export * from './split.js';
export * from './topology.js';
export * from './trace.js';
export * from './walk.js';
export * from './well-formed.js';
