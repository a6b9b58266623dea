/**
 * What goes wrong in a simulated fabric, as data: a seed and a list of rules. The same plan on the same program gives the same run, so a
 * failure is reproduced by its plan alone, and `shrinkPlan` finds a smaller one that still fails.
 *
 * A rule speaks of packets (drop, duplicate, delay, corrupt), of links (down, partition) or of devices (kill).
 */

import type { Random } from './random.js';

/** Which packets a rule is about. Every field left out means "all". */
export interface PacketFilter {
  /** Indices of the sending and of the receiving device. */
  readonly from?: number;
  readonly to?: number;
  /** From this time on, and before that one, nanoseconds. */
  readonly afterNs?: number;
  readonly beforeNs?: number;
  /** Packets of the whole fabric are counted from 1; the first and the last this rule is about. */
  readonly firstPacket?: number;
  readonly lastPacket?: number;
  /** Chance in a million. Default: always. */
  readonly perMillion?: number;
}

/** Something that goes wrong: with packets, or with a link or a device. */
export type FaultRule =
  | (PacketFilter & { readonly kind: 'drop' | 'duplicate' | 'corrupt' })
  /** Holds a packet back by 1 to `delayNs`, so that later ones overtake it. */
  | (PacketFilter & { readonly kind: 'delay'; readonly delayNs: number })
  /** The link of a device carries nothing. */
  | { readonly kind: 'linkDown'; readonly device: number; readonly afterNs?: number; readonly beforeNs?: number }
  /** Nothing passes between these devices and the others. */
  | { readonly kind: 'partition'; readonly devices: readonly number[]; readonly afterNs?: number; readonly beforeNs?: number }
  /** A device dies at a time, or when it has sent so many packets or bytes. */
  | {
      readonly kind: 'kill';
      readonly device: number;
      readonly atNs?: number;
      readonly afterPackets?: number;
      readonly afterBytes?: number;
    };

export interface FaultPlan {
  /** Decides all chances. */
  readonly seed: number;
  readonly rules: readonly FaultRule[];
}

const KINDS = ['drop', 'duplicate', 'corrupt', 'delay', 'linkDown', 'partition', 'kill'];

/** Why a plan is none, or undefined. */
export function planFault(plan: FaultPlan): string | undefined {
  if (!Number.isSafeInteger(plan.seed)) return `seed must be a safe integer: got ${String(plan.seed)}`;
  for (const [i, rule] of plan.rules.entries()) {
    if (!KINDS.includes(rule.kind)) return `rule ${i}: unknown kind '${String(rule.kind)}': use ${KINDS.join(', ')}`;
    if (rule.kind === 'delay' && !(Number.isInteger(rule.delayNs) && rule.delayNs > 0)) {
      return `rule ${i}: delay needs delayNs, a positive number of nanoseconds`;
    }
    if (rule.kind === 'kill' && rule.atNs === undefined && rule.afterPackets === undefined && rule.afterBytes === undefined) {
      return `rule ${i}: kill needs atNs, afterPackets or afterBytes`;
    }
  }
  return undefined;
}

function isDuring(rule: { readonly afterNs?: number; readonly beforeNs?: number }, now: number): boolean {
  return now >= (rule.afterNs ?? 0) && now < (rule.beforeNs ?? Number.POSITIVE_INFINITY);
}

function concerns(rule: PacketFilter, from: number, to: number, now: number, packet: number): boolean {
  if (rule.from !== undefined && rule.from !== from) return false;
  if (rule.to !== undefined && rule.to !== to) return false;
  if (packet < (rule.firstPacket ?? 0) || packet > (rule.lastPacket ?? Number.POSITIVE_INFINITY)) return false;
  return isDuring(rule, now);
}

/** What becomes of one packet. Used again for every packet. */
export class Fate {
  isLost = false;
  copies = 1;
  isCorrupt = false;
  delayNs = 0;
}

/** Decides over one packet: the `packet`-th of the fabric. Chances are drawn in the order of the rules. */
export function decideFate(
  plan: FaultPlan,
  random: Random,
  from: number,
  to: number,
  now: number,
  packet: number,
  fate: Fate,
): void {
  fate.isLost = false;
  fate.copies = 1;
  fate.isCorrupt = false;
  fate.delayNs = 0;
  for (const rule of plan.rules) {
    switch (rule.kind) {
      case 'kill':
        break;
      case 'linkDown':
        if ((rule.device === from || rule.device === to) && isDuring(rule, now)) fate.isLost = true;
        break;
      case 'partition':
        if (rule.devices.includes(from) !== rule.devices.includes(to) && isDuring(rule, now)) fate.isLost = true;
        break;
      default:
        if (!concerns(rule, from, to, now, packet) || !random.chance(rule.perMillion ?? 1_000_000)) break;
        if (rule.kind === 'drop') fate.isLost = true;
        else if (rule.kind === 'duplicate') fate.copies++;
        else if (rule.kind === 'corrupt') fate.isCorrupt = true;
        else if (rule.kind === 'delay') fate.delayNs += 1 + random.below(rule.delayNs);
    }
  }
}

/** A random plan for a fabric of `devices`: mostly packet faults, sometimes a link that is down or a partition, rarely for ever, or a death. */
export function randomPlan(random: Random, devices: number): FaultPlan {
  const rules: FaultRule[] = [];
  const heavy = [2_000, 20_000, 100_000][random.below(3)];
  for (const kind of ['drop', 'duplicate', 'corrupt'] as const) {
    if (random.below(2) === 0) rules.push({ kind, perMillion: 1 + random.below(heavy) });
  }
  if (random.below(2) === 0) {
    rules.push({ kind: 'delay', perMillion: 1 + random.below(heavy * 2), delayNs: [2_000, 50_000, 2_000_000][random.below(3)] });
  }
  for (const kind of ['linkDown', 'partition'] as const) {
    if (random.below(8) !== 0) continue;
    const device = random.below(devices);
    const afterNs = random.below(100_000);
    const during = { afterNs, ...(random.below(8) > 0 && { beforeNs: afterNs + random.below(2_000_000) }) };
    rules.push(kind === 'linkDown' ? { kind, device, ...during } : { kind, devices: [device], ...during });
  }
  if (random.below(16) === 0) {
    const device = random.below(devices);
    const [atNs, afterPackets, afterBytes] = [random.below(400_000), random.below(100), random.below(50_000)];
    rules.push({ kind: 'kill', device, ...[{ atNs }, { afterPackets }, { afterBytes }][random.below(3)] });
  }
  return { seed: random.u32(), rules };
}

/** Smaller forms of one rule, boldest first. */
function smaller(rule: FaultRule): FaultRule[] {
  if (!('perMillion' in rule) || rule.perMillion === undefined) return [];
  return rule.perMillion > 1 ? [{ ...rule, perMillion: Math.floor(rule.perMillion / 2) }] : [];
}

/**
 * A plan that still fails and from which nothing more can be taken: first rules are left out, then chances halved. `fails` runs the program
 * under a plan; it is called at most `attempts` times.
 */
export function shrinkPlan(plan: FaultPlan, fails: (plan: FaultPlan) => boolean, attempts = 200): FaultPlan {
  let best = plan;
  let left = attempts;
  const tries = (candidate: FaultPlan): boolean => {
    if (left <= 0) return false;
    left--;
    if (!fails(candidate)) return false;
    best = candidate;
    return true;
  };
  for (let hasShrunk = true; hasShrunk && left > 0; ) {
    hasShrunk = false;
    for (let i = 0; i < best.rules.length; i++) {
      if (tries({ ...best, rules: best.rules.filter((_, k) => k !== i) })) {
        hasShrunk = true;
        i--;
      }
    }
    for (let i = 0; i < best.rules.length; i++) {
      for (const rule of smaller(best.rules[i])) {
        if (tries({ ...best, rules: best.rules.map((old, k) => (k === i ? rule : old)) })) hasShrunk = true;
      }
    }
  }
  return best;
}
