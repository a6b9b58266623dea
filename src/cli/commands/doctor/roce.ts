/** What the doctor says about RoCE: the kernel's limit on receive buffers, and what the open devices of this user have met. */

import { type RoceStatus, readRoceDevices } from '../../../verbs/providers/roce/status-page.js';
import type { HostFiles } from '../../host-files.js';
import { formatCount, formatSize } from '../../size.js';
import type { Finding } from './finding.js';

const AREA = 'RoCE';
/** A connection's window of full packets, as the kernel counts them. */
const WANTED_BYTES = 8 << 20;

/** Packets that were dropped, by reason. */
const DROPS = ['badIcrc', 'malformed', 'unknownQueuePair', 'wrongPartition', 'wrongSource', 'sendErrors', 'tooLong'] as const;

function deviceFinding({ pid, name, where, queuePairs, counters }: RoceStatus): Finding {
  const drops = DROPS.flatMap((reason) => (counters[reason] > 0 ? [`${reason} ${formatCount(counters[reason])}`] : []));
  const again = counters.packetsSent > 0 ? counters.retransmitted / counters.packetsSent : 0;
  const words = [
    `${where}, ${queuePairs} queue pairs`,
    `${formatCount(counters.packetsSent)} packets sent, ${formatCount(counters.packetsReceived)} received`,
    `${formatCount(counters.retransmitted)} sent again`,
    drops.length > 0 ? `dropped: ${drops.join(', ')}` : 'none dropped',
  ];
  const isLossy = again > 0.01;
  return {
    area: AREA,
    what: `${name} (${pid})`,
    level: isLossy || drops.length > 0 ? 'note' : 'ok',
    found: words.join('; '),
    ...(isLossy && { advice: 'more than one packet in a hundred was sent again: look for a full queue on the path' }),
    data: counters,
  };
}

export function roceFindings(files: HostFiles, devices: readonly RoceStatus[] = readRoceDevices()): Finding[] {
  const most = Number(files.text('proc/sys/net/core/rmem_max') ?? Number.NaN);
  const limit: Finding[] = Number.isFinite(most)
    ? [
        {
          area: AREA,
          what: 'receive buffers',
          level: most >= WANTED_BYTES ? 'ok' : 'note',
          found: `at most ${formatSize(most)} (net.core.rmem_max)`,
          ...(most < WANTED_BYTES && {
            advice: `a connection has fewer packets outstanding than it could: sysctl net.core.rmem_max=${WANTED_BYTES}; root is not bound by it`,
          }),
          data: most,
        },
      ]
    : [];
  return [...limit, ...devices.map(deviceFinding)];
}
