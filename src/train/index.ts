/** The train layer: models that train together on many ranks. */

export * from './all-reduce-exchange.js';
export * from './buckets.js';
export * from './checkpoint/checkpoint-writer.js';
export * from './checkpoint/interval.js';
export * from './checkpoint/restore.js';
export * from './checkpoint/safetensors.js';
export * from './compression/compressed-exchange.js';
export * from './compression/compression.js';
export * from './distribute.js';
export * from './evaluate.js';
export * from './fit.js';
export * from './gradient-exchange.js';
export * from './local-sgd-exchange.js';
export { type ClientCounters, type ParameterClient, ShardLost } from './parameter-server/client.js';
export * from './parameter-server/group.js';
export * from './parameter-server/parameter-server-exchange.js';
export type { GroupPlan, ServerCounters } from './parameter-server/server.js';
export type { ServerOptimizer } from './parameter-server/server-optimizer.js';
export type { ServerMode } from './parameter-server/shard.js';
export type { StepTimes } from './step-times.js';
export * from './stragglers.js';
export * from './timeline.js';
export * from './trace.js';
