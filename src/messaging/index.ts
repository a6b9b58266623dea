export type { ActiveMessage, ActiveMessageHandler } from './am/handlers.js';
export { Context, openContext } from './context.js';
export { Endpoint, type EndpointState } from './endpoint.js';
export * from './errors.js';
export { Listener } from './listener.js';
export type { RegistrationCacheOptions } from './memory/registration-cache.js';
export type { ContextOptions, WorkerOptions } from './options.js';
export { type Data, Payload, payloadOf, type Strided } from './payload.js';
export type { ProgressMode } from './progress/driver.js';
export {
  openProgressWorker,
  ProgressEndpoint,
  type ProgressMessage,
  ProgressWorker,
  type ProgressWorkerOptions,
} from './progress/progress-worker.js';
export { defaultCosts, LINK_COSTS } from './protocols/costs.js';
export { type CandidateExplanation, type Explanation, explainSelection } from './protocols/explanation.js';
export type { Abilities, CostLine, Costs, Protocol, ProtocolName } from './protocols/protocol.js';
export { type Force, PROTOCOLS, type Range, type Selection, select } from './protocols/selection.js';
export { type CallOptions, type Received, Request, type WaitObserver } from './request.js';
export { type ExposedMemory, RemoteMemory } from './rma/remote-memory.js';
export { type Comparison, SymmetricHeap, type SymmetricHeapOptions } from './rma/symmetric-heap.js';
export { EndpointStream } from './stream/endpoint-stream.js';
export { ANY_SOURCE } from './tag/match-queue.js';
export type { Tag } from './tag/tag.js';
export { type MatchedMessage, type ProbeResult, type ReceiveOptions, USER_CONTEXT, Worker } from './worker.js';
