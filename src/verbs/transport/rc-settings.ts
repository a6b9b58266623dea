/**
 * What a reliable connection is set up with: the attributes of ibv_modify_qp that the transport uses, as numbers.
 *
 * The object is live: a provider changes what the present state lets it change (access and RNR timer at any time; timeout, retry counts
 * and READ depths while the send queue is drained), and the machines see it at the next packet.
 */

/** Settings of one end of a reliable connection. */
export interface RcSettings {
  /** Queue pair number of the peer. */
  destQp: number;
  /** Path MTU in bytes: 256, 512, 1024, 2048 or 4096. Both ends must use the same. */
  mtu: number;
  /** First PSN sent, first PSN expected. */
  sendPsn: number;
  receivePsn: number;
  /** Acknowledge timeout code: 4.096 us x 2^code, 0 is endless. */
  timeout: number;
  /** Retries without progress before RETRY_EXC_ERR, 0..7. */
  retryCount: number;
  /** Retries after "receiver not ready" before RNR_RETRY_EXC_ERR, 0..7; 7 is endless. */
  rnrRetry: number;
  /** Timer code sent in an RNR NAK. */
  minRnrTimer: number;
  /** READs and atomics outstanding as requester. */
  maxRdAtomic: number;
  /** READs and atomics the responder remembers. */
  maxDestRdAtomic: number;
  /** What the peer may do through this queue pair: bits of access.ts. */
  access: number;
  /** Default 0xffff. */
  partitionKey?: number;
  /** Packets outstanding at most. Default 256, range 1..2^22. A provider with congestion control changes it while running. */
  window?: number;
}
