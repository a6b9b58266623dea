export { CompletionQueues, type CompletionQueuesOptions } from './completion-queues.js';
export { type RingPosts, RingReader, RingRegion, type RingShape, RingWriter, ringBytes } from './ring-region.js';
export { OneSidedTable } from './rpc-one-sided.js';
export { RingRpc } from './rpc-ring.js';
export { type RpcHandler, TwoSidedRpc, type TwoSidedRpcOptions } from './rpc-two-sided.js';
