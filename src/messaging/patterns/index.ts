export { type RingPosts, RingReader, type RingShape, RingWriter, ringBytes } from './ring-region.js';
export { OneSidedTable } from './rpc-one-sided.js';
export { RingRpc } from './rpc-ring.js';
export { type RpcHandler, TwoSidedRpc, type TwoSidedRpcOptions } from './rpc-two-sided.js';
