/**
 * Parameter servers: W workers push n bytes of gradient to K servers that each hold 1/K of the model, and pull the result back.
 *
 * One direction takes as long as the busier side's port: a worker moves n, a server W n / K. Push then pull doubles that; overlapped on full-duplex
 * links it does not. K = 1 is the famous bottleneck (W n through one port); K = W on the workers' own hosts moves exactly the bytes of a ring.
 */
import { requireInteger, requireNumber } from '../refusal.js';

export interface ParameterServerQuestion {
  /** Workers, >= 1. */
  readonly workers: number;
  /** Servers, >= 1. */
  readonly servers: number;
  /** Bytes of the model's gradient. */
  readonly bytes: number;
  /** Bytes per second of a port, one way. */
  readonly bytesPerSecond: number;
  /** Seconds per message. Default 0. */
  readonly alphaSeconds?: number;
  /** Servers share the workers' hosts (then servers must equal workers). Default false. */
  readonly colocated?: boolean;
}

/** Seconds of one exchange, by the way in which it is done. */
export interface ParameterServerAnswer {
  readonly pushSeconds: number;
  readonly pushThenPullSeconds: number;
  readonly overlappedSeconds: number;
  readonly bottleneck: 'worker' | 'server';
  /** Bytes in and out of one server, each way. */
  readonly serverBytes: number;
  /** Messages that arrive at one server in one round. */
  readonly fanIn: number;
  /** Servers from which on the workers are the bottleneck. */
  readonly enoughServers: number;
  /** The ring all-reduce over the same ports, for comparison. */
  readonly ringSeconds: number;
}

export function parameterServer(q: ParameterServerQuestion): ParameterServerAnswer {
  const workers = requireInteger('workers', q.workers, 1);
  const servers = requireInteger('servers', q.servers, 1, q.colocated ? workers : undefined);
  if (q.colocated) requireInteger('servers (co-located: one on every worker)', q.servers, workers, workers);
  requireNumber('bytes', q.bytes, 0);
  requireNumber('bytesPerSecond', q.bytesPerSecond, 1);
  const alpha = q.alphaSeconds ?? 0;
  const keep = q.colocated ? (workers - 1) / workers : 1; // a worker's own share stays at home
  const workerBytes = q.bytes * keep;
  const serverBytes = ((workers * q.bytes) / servers) * keep;
  const pushSeconds =
    alpha * (q.colocated ? workers - 1 : Math.max(workers, servers)) + Math.max(workerBytes, serverBytes) / q.bytesPerSecond;
  return {
    pushSeconds,
    pushThenPullSeconds: 2 * pushSeconds,
    overlappedSeconds: pushSeconds,
    bottleneck: serverBytes > workerBytes ? 'server' : 'worker',
    serverBytes,
    fanIn: q.colocated ? workers - 1 : workers,
    enoughServers: workers,
    ringSeconds: 2 * (workers - 1) * alpha + (2 * q.bytes * (workers - 1)) / workers / q.bytesPerSecond,
  };
}
