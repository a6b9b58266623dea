/** The target of the demonstration: offers its memory, then computes in a synchronous loop, deaf to everything. */

import type { Device, QpAddress, QueuePair, RemoteRegion } from '../../../verbs/index.js';
import { openDevice } from '../../../verbs/open-device.js';
import { serve } from '../bench/child-program.js';
import { CLOCK, COUNTER, GREETING, PRIMES, RELEASED, REPLY, readText, TARGET_BYTES, TURNS, writeText } from './target-layout.js';

export interface TargetAddress {
  readonly qp: QpAddress;
  readonly memory: RemoteRegion;
}

/** What the target finds in its memory when it looks again. */
export interface Awakening {
  readonly blockedMs: number;
  readonly turnsWhileBlocked: number;
  readonly reply: string;
  readonly counter: number;
  readonly primes: number;
}

/** Who started the demonstration may be gone. */
const LIMIT_MS = 30_000;

let device: Device;
let qp: QueuePair;
let bytes: Uint8Array;
let turns: BigInt64Array;

async function open({ provider, greeting }: { provider: string; greeting: string }): Promise<TargetAddress> {
  device = await openDevice(provider, { name: 'demo target' });
  const pd = device.allocPd();
  const cq = device.createCq();
  const region = pd.register(device.alloc(TARGET_BYTES), { remoteRead: true, remoteWrite: true, remoteAtomic: true });
  bytes = region.bytes;
  turns = new BigInt64Array(bytes.buffer, bytes.byteOffset + TURNS, 1);
  writeText(bytes, GREETING, greeting);
  qp = pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq });
  setInterval(() => Atomics.add(turns, 0, 1n), 1);
  return { qp: qp.address(), memory: region.remote() };
}

function isPrime(n: number): boolean {
  for (let d = 3; d * d <= n; d += 2) if (n % d === 0) return false;
  return true;
}

/** Computes on the thread without a pause, at least so long and until it is released. Says so before it begins, and reports when it is over. */
function block(durationMs: number): Awakening {
  const facts = new Float64Array(bytes.buffer, bytes.byteOffset + CLOCK, (PRIMES - CLOCK) / 8 + 1);
  const released = new Int32Array(bytes.buffer, bytes.byteOffset + RELEASED, 1);
  const turnsBefore = Atomics.load(turns, 0);
  const start = performance.now();
  let primes = 1;
  let elapsed = 0;
  const isReleased = () => Atomics.load(released, 0) !== 0 || elapsed > LIMIT_MS;
  for (let n = 3; elapsed < durationMs || !isReleased(); n += 2) {
    if (isPrime(n)) primes++;
    if (n % 1024 === 1) {
      elapsed = performance.now() - start;
      facts[0] = elapsed;
      facts[1] = primes;
    }
  }
  const counter = new BigInt64Array(bytes.buffer, bytes.byteOffset + COUNTER, 1);
  return {
    blockedMs: elapsed,
    turnsWhileBlocked: Number(Atomics.load(turns, 0) - turnsBefore),
    reply: readText(bytes, REPLY),
    counter: Number(Atomics.load(counter, 0)),
    primes,
  };
}

serve({ open, connect: (peer: QpAddress) => qp.connect(peer), block });
