/**
 * What a RoCE device counts: operations, packets, repetitions, and everything that was dropped, by reason.
 */

import { TransportCounters } from '../../transport/host.js';

/** Totals of a device since it was opened. */
export class RoceCounters extends TransportCounters {
  operations = 0;
  bytes = 0;
  errors = 0;
  systemCalls = 0;
  /** IPv4 packets whose ICRC is right for one unknown identification: accepted, with odds of 2^-16 of a mistake. */
  assumedIcrc = 0;
  /** Packets dropped because the ICRC is wrong. */
  badIcrc = 0;
  /** Packets dropped because they are no InfiniBand packets. */
  malformed = 0;
  /** Packets dropped because nobody has their queue pair number, or it serves another transport. */
  unknownQueuePair = 0;
  /** Packets for a queue pair in the error state: they change nothing, and are answered at most by the NAK that led there. */
  errorState = 0;
  /** Packets dropped because they are of another partition. */
  wrongPartition = 0;
  /** Packets dropped because they did not come from the address that the queue pair is connected to. */
  wrongSource = 0;
  /** Congestion notifications that came. */
  congestionNotices = 0;
  /** Packets that arrived with a congestion mark. */
  congestionMarks = 0;
  /** Packets that the kernel did not take. */
  sendErrors = 0;
  /** Packets that did not fit the path. */
  tooLong = 0;
}
