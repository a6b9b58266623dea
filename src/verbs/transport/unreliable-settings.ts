/**
 * What the unreliable services are set up with, as numbers.
 */

/** Settings of an unreliable connection. */
export interface UcSettings {
  /** Queue pair number of the peer. */
  destQp: number;
  /** Path MTU in bytes: 256, 512, 1024, 2048 or 4096. Both ends must use the same. */
  mtu: number;
  /** First PSN sent, first PSN expected. */
  sendPsn: number;
  receivePsn: number;
  /** What the peer may do through this queue pair: bits of access.ts. */
  access: number;
  /** Default 0xffff. */
  partitionKey?: number;
}

/** Settings of a datagram queue pair. */
export interface UdSettings {
  /** Its own number: the source that receivers see. */
  qpNum: number;
  /** The longest message, bytes. */
  mtu: number;
  sendPsn: number;
  /** Only datagrams with this key are taken. */
  queueKey: number;
  /** Default 0xffff. */
  partitionKey?: number;
}
