/**
 * From which size on rendezvous beats eager: both are straight lines over the message size, the threshold is where they cross.
 *
 * Eager copies through bounce buffers (memcpy speed) or registers; rendezvous pays a handshake (four latencies, three overheads) and the registration,
 * then moves at wire speed. So the threshold is latency over the gap between memcpy and wire; when the wire is not faster than the copy, the lines never
 * cross, and rendezvous pays in memory only. The constants are UCX's published defaults.
 */
import { PlanRefusal } from '../refusal.js';

/** Links by name: bytes per second one way, and one-way latency in nanoseconds. */
export interface LinkKind {
  readonly name: string;
  readonly bytesPerSecond: number;
  readonly latencyNs: number;
}

/** Links by name: usual bandwidths and latencies. */
export const linkKinds: readonly LinkKind[] = [
  { name: 'sdr', bytesPerSecond: 1e9, latencyNs: 5000 },
  { name: 'ddr', bytesPerSecond: 2e9, latencyNs: 2500 },
  { name: 'qdr', bytesPerSecond: 4e9, latencyNs: 1300 },
  { name: 'fdr', bytesPerSecond: 6.8e9, latencyNs: 700 },
  { name: 'edr', bytesPerSecond: 12.5e9, latencyNs: 600 },
  { name: 'hdr', bytesPerSecond: 25e9, latencyNs: 600 },
  { name: 'ndr', bytesPerSecond: (50e9 * 64) / 66, latencyNs: 600 },
  { name: 'roce-25', bytesPerSecond: 3.125e9, latencyNs: 800 },
  { name: 'roce-100', bytesPerSecond: 12.5e9, latencyNs: 800 },
  { name: 'roce-200', bytesPerSecond: 25e9, latencyNs: 800 },
  { name: 'roce-400', bytesPerSecond: 50e9, latencyNs: 800 },
];

/** The link of that name. @throws PlanRefusal that lists them. */
export function linkNamed(name: string): LinkKind {
  const found = linkKinds.find((link) => link.name === name);
  if (found === undefined)
    throw new PlanRefusal(`there is no link "${name}"; there are ${linkKinds.map((link) => link.name).join(', ')}`, 'edr');
  return found;
}

export interface ThresholdOptions {
  /** Bytes per second of memcpy through bounce buffers. Default 5800 MiB/s. */
  readonly copyBytesPerSecond?: number;
  /** Nanoseconds of work per message. Default 40. */
  readonly overheadNs?: number;
  /** Whether registrations are kept and found again. Default true. */
  readonly registrationCache?: boolean;
  /** Nanoseconds to find a cached registration. Default 50. */
  readonly cachedRegistrationNs?: number;
  /** Nanoseconds to register, fixed part. Default 16,000. */
  readonly registrationNs?: number;
  /** Nanoseconds to register, per byte. Default 0.06. */
  readonly registrationNsPerByte?: number;
  /** `get`: the receiver reads, so it registers as well. `am`: the sender sends again. Default get. */
  readonly scheme?: 'get' | 'am';
  /** How much rendezvous time is discounted (a tie goes to rendezvous, it spares memory). Default 0.99. */
  readonly preference?: number;
}

/** A straight line over the message size, in nanoseconds. */
export interface CostLine {
  readonly fixedNs: number;
  readonly nsPerByte: number;
}

/** The two cost lines and where they cross. */
export interface ThresholdAnswer {
  readonly eager: CostLine;
  readonly rendezvous: CostLine;
  /** Bytes from which on rendezvous is chosen; Infinity when never. */
  readonly thresholdBytes: number;
  readonly reason: string;
}

export function rendezvousThreshold(link: LinkKind, options: ThresholdOptions = {}): ThresholdAnswer {
  const copy = options.copyBytesPerSecond ?? 5800 * 2 ** 20;
  const overhead = options.overheadNs ?? 40;
  const cached = options.registrationCache ?? true;
  const fixed = cached ? (options.cachedRegistrationNs ?? 50) : (options.registrationNs ?? 16_000);
  const growth = cached ? 0 : (options.registrationNsPerByte ?? 0.06);
  const d = options.preference ?? 0.99;
  const registrations = (options.scheme ?? 'get') === 'get' ? 2 : 1;
  const wire = 1e9 / link.bytesPerSecond;
  const slower = Math.max(wire, 1e9 / copy);
  const eager: CostLine = { fixedNs: fixed + overhead, nsPerByte: growth + slower };
  const rendezvous: CostLine = {
    fixedNs: d * (registrations * fixed + 4 * link.latencyNs + 3 * overhead),
    nsPerByte: d * (registrations * growth + wire),
  };
  const gap = eager.nsPerByte - rendezvous.nsPerByte;
  const rise = rendezvous.fixedNs - eager.fixedNs;
  if (gap <= 0) {
    return {
      eager,
      rendezvous,
      thresholdBytes: Number.POSITIVE_INFINITY,
      reason: 'per byte, rendezvous is not cheaper than eager on this link: it never pays in time, only in memory',
    };
  }
  if (rise <= 0) return { eager, rendezvous, thresholdBytes: 0, reason: 'rendezvous is cheaper from the first byte' };
  return {
    eager,
    rendezvous,
    thresholdBytes: rise / gap,
    reason:
      link.bytesPerSecond <= copy
        ? 'the wire is no faster than a copy: rendezvous saves memory, not time, and wins only because ties go to it'
        : `the handshake costs ${Math.round(rise)} ns more, each byte ${gap.toFixed(4)} ns less`,
  };
}
