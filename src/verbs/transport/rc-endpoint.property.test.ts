/**
 * Random operations between two reliably connected ends over a faulty link, in virtual time, many seeds.
 *
 * Each side drives a sequential model of what it does to the other: WRITE slots are written once, READs read what earlier requests
 * left there, one counter takes the atomics. So the end state, every READ and every fetched value are known exactly, and a byte in
 * the wrong place or an operation carried out twice shows. When a side ends in an error (retries used up), the completions must be
 * successes, one error, then flushes, and everything that succeeded must be there.
 *
 * VERBENA_SEED=n runs that seed alone; VERBENA_SEEDS=n sets how many.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OPCODES } from '../opcode.js';
import { FastEndpoint } from '../providers/roce/fast-endpoint.test.fixture.js';
import { Random } from '../providers/sim/random.js';
import { STATUS, statusName } from '../status.js';
import { type End, type Faults, Pair } from './pair.test.fixture.js';
import { SendFlag } from './send-queue.js';

const [SEND, SEND_IMM, WRITE, WRITE_IMM, READ, CAS, FAA] = OPCODES.map((_, i) => i);

/** Layout of each side's memory: what I send, what I read into, my receives, what the peer writes, the counter it changes. */
const SOURCE = 0;
const LANDING = 64 * 1024;
const RECEIVES = 128 * 1024;
const TARGET = 192 * 1024;
const COUNTER = 256 * 1024;
const TOTAL = 257 * 1024;
const SLOT = 2048;
const OPS = 24;

interface Step {
  readonly opcode: number;
  readonly length: number;
  /** Offset in the peer's memory of a WRITE or READ. */
  readonly target: number;
  /** What a READ or atomic must bring. */
  expected: Uint8Array;
  readonly immediate: number;
  readonly isSignaled: boolean;
}

/** What one side is going to do, and the sequential model of the peer's memory after it. */
class Script {
  readonly steps: Step[] = [];
  readonly model = new Uint8Array(TOTAL);
  private counter = 0n;

  constructor(random: Random, source: Uint8Array, peerMemory: Uint8Array, maxLength: number) {
    this.model.set(peerMemory);
    const slots = (COUNTER - TARGET) / SLOT;
    for (let i = 0; i < OPS; i++) {
      const opcode = random.below(OPCODES.length);
      const isAtomic = opcode === CAS || opcode === FAA;
      const length = isAtomic ? 8 : random.chance(100_000) ? 0 : random.between(1, maxLength);
      const slot = opcode === READ ? random.below(slots) : i % slots;
      const target = isAtomic ? COUNTER : TARGET + slot * SLOT;
      const step: Step = {
        opcode,
        length,
        target,
        expected: new Uint8Array(0),
        immediate: random.u32(),
        isSignaled: random.chance(800_000),
      };
      if (opcode === WRITE || opcode === WRITE_IMM) {
        this.model.set(source.subarray(i * SLOT, i * SLOT + length), target);
      } else if (opcode === READ) {
        step.expected = this.model.slice(target, target + length);
        // A repeated READ sees memory as it is then, so what it reads must not be written by a later step.
        if (slot >= i && slot < OPS) step.expected = new Uint8Array(0);
      } else if (isAtomic) {
        step.expected = new Uint8Array(new BigUint64Array([this.counter]).buffer);
        if (opcode === FAA) this.counter = BigInt.asUintN(64, this.counter + BigInt(step.immediate) * 0x100000001n);
        else if (step.immediate & 1) this.counter = BigInt(step.immediate) << 20n;
        new BigUint64Array(this.model.buffer, COUNTER, 1)[0] = this.counter;
      }
      this.steps.push(step);
    }
  }

  /** Posts step i at `me` towards `peer`. */
  post(i: number, me: End, peer: End, before: bigint): void {
    const s = this.steps[i];
    const remote = { remoteAddress: peer.base + s.target, remoteKey: peer.key };
    const flags = s.isSignaled ? SendFlag.signaled : 0;
    if (s.opcode === FAA) {
      me.post(FAA, i, LANDING + i * SLOT, 8, { ...remote, flags, swapHi: s.immediate, swapLo: s.immediate });
    } else if (s.opcode === CAS) {
      const compare = s.immediate & 1 ? before : before ^ 1n;
      const swap = BigInt(s.immediate) << 20n;
      const half = (v: bigint) => Number(v & 0xffffffffn);
      const operands = {
        compareHi: half(compare >> 32n),
        compareLo: half(compare),
        swapHi: half(swap >> 32n),
        swapLo: half(swap),
      };
      me.post(CAS, i, LANDING + i * SLOT, 8, { ...remote, flags, ...operands });
    } else {
      const offset = s.opcode === READ ? LANDING + i * SLOT : SOURCE + i * SLOT;
      me.post(s.opcode, i, offset, s.length, { ...remote, flags, immediate: s.immediate });
    }
  }
}

function faultsOf(random: Random): Faults {
  const worst = [0, 0, 10_000, 50_000, 150_000, 300_000][random.below(6)];
  return {
    drop: random.below(worst + 1),
    duplicate: random.below(worst + 1),
    corrupt: random.below(worst + 1) >> 1,
    delay: random.below(worst * 2 + 1),
    delayNs: [2_000, 20_000, 400_000][random.below(3)],
  };
}

/** Checks one side's completions and what they promise about the peer. Returns whether all succeeded. */
function verify(me: End, peer: End, script: Script, isStrict: boolean): boolean {
  let next = 0;
  let failed = -1;
  for (const c of me.sent) {
    const step = script.steps[c.id];
    assert.equal(c.opcode, step.opcode);
    if (c.status === STATUS.SUCCESS) {
      assert.equal(failed, -1, `request ${c.id} succeeded after request ${failed} had failed`);
      assert.ok(step.isSignaled);
      assert.ok(c.id >= next, 'completions are in order');
      for (; next < c.id; next++) assert.ok(!script.steps[next].isSignaled, `request ${next} has no completion`);
    } else {
      assert.equal(c.id, failed === -1 ? Math.max(c.id, next) : next, 'no request is left out once one failed');
      const allowed =
        failed === -1 ? [STATUS.RETRY_EXC_ERR, STATUS.RNR_RETRY_EXC_ERR, STATUS.WR_FLUSH_ERR] : [STATUS.WR_FLUSH_ERR];
      assert.ok((allowed as number[]).includes(c.status), `request ${c.id}: ${statusName(c.status)}`);
      if (failed === -1) failed = c.id;
    }
    next = c.id + 1;
  }
  const done = failed === -1 ? OPS : failed;
  if (failed === -1) for (; next < OPS; next++) assert.ok(!script.steps[next].isSignaled, `request ${next} has no completion`);
  if (isStrict) assert.equal(failed, -1, `request ${failed} failed although nothing was lost`);

  const arrived = peer.received.filter((c) => c.status === STATUS.SUCCESS);
  const consuming = script.steps.flatMap((s, i) => (s.opcode <= SEND_IMM || s.opcode === WRITE_IMM ? [i] : []));
  assert.ok(arrived.length >= consuming.filter((i) => i < done).length, 'a message that succeeded has arrived');
  assert.ok(arrived.length <= consuming.length, 'no message arrived twice');
  for (const [n, c] of arrived.entries()) {
    const step = script.steps[consuming[n]];
    assert.equal(c.id, n, 'receive requests are used in order');
    assert.equal(c.byteLength, step.length);
    assert.equal(c.immediate, step.opcode === SEND ? 0 : step.immediate);
    if (step.opcode <= SEND_IMM) {
      const source = me.bytes.subarray(SOURCE + consuming[n] * SLOT, SOURCE + consuming[n] * SLOT + step.length);
      assert.deepEqual(peer.bytes.subarray(RECEIVES + n * SLOT, RECEIVES + n * SLOT + step.length), source, 'message bytes');
    }
  }
  for (let i = 0; i < done; i++) {
    const step = script.steps[i];
    if (step.opcode >= READ) {
      const landed = me.bytes.subarray(LANDING + i * SLOT, LANDING + i * SLOT + step.expected.length);
      assert.deepEqual(landed, step.expected, `what request ${i} brought`);
    }
    if (step.opcode === WRITE || step.opcode === WRITE_IMM) {
      const source = me.bytes.subarray(SOURCE + i * SLOT, SOURCE + i * SLOT + step.length);
      assert.deepEqual(peer.bytes.subarray(step.target, step.target + step.length), source, `what request ${i} wrote`);
    }
  }
  if (failed === -1)
    assert.deepEqual(peer.bytes.subarray(TARGET), script.model.subarray(TARGET), 'memory is what the model says');
  return failed === -1;
}

/** How endpoints are run: as they are; taken over by fresh ones now and then; the usual packets in C, now and then. */
type Way = 'plain' | 'moved' | 'fast';

/** One run. Returns how many of the two sides ended without an error. */
function play(seed: number, way: Way): number {
  const moves = way === 'moved';
  const random = new Random(seed);
  const mtu = [256, 512, 1024][random.below(3)];
  const maxRdAtomic = random.between(1, 4);
  const pair = Pair.rc(
    {
      mtu,
      window: random.between(1, 40),
      timeout: random.between(4, 8),
      retryCount: random.between(1, 7),
      rnrRetry: random.chance(800_000) ? 7 : random.between(0, 6),
      minRnrTimer: random.between(1, 8),
      maxRdAtomic,
      maxDestRdAtomic: random.between(maxRdAtomic, 6),
      sendPsn: random.below(0x1000000),
      receivePsn: random.below(0x1000000),
    },
    {},
    seed,
    TOTAL,
    OPS,
    way === 'fast' ? (end, settings) => new FastEndpoint(end, settings, seed) : undefined,
  );
  pair.faults = faultsOf(random);
  const { a, b } = pair;
  const ends = [a, b];
  for (const end of ends) for (let i = 0; i < COUNTER; i++) end.bytes[i] = i >= LANDING && i < TARGET ? 0 : random.u32();
  const pristine = ends.map((end) => end.bytes.slice());
  const scripts = [new Script(random, a.bytes, b.bytes, SLOT), new Script(random, b.bytes, a.bytes, SLOT)];
  const posted = [0, 0];
  const receives = [0, 0];
  // Posting and receiving goes on while the run does, at times the seed decides.
  const mover = new Random(seed ^ 0x5eed);
  pair.run(() => {
    for (const side of [0, 1]) {
      const me = ends[side];
      const script = scripts[side];
      if (moves && mover.below(2) === 0) pair.move(me);
      const budget = random.below(3);
      for (let n = 0; n < budget && posted[side] < OPS && me.sendQueue.count < OPS; n++) {
        const i = posted[side]++;
        const before =
          script.steps[i].expected.length === 8 ? new BigUint64Array(script.steps[i].expected.slice().buffer)[0] : 0n;
        script.post(i, me, ends[1 - side], before);
      }
      if (random.below(4) === 0 && receives[side] < OPS) {
        me.postReceive(receives[side], RECEIVES + receives[side] * SLOT, SLOT);
        receives[side]++;
      }
    }
    return false;
  });
  for (let guard = 0; posted[0] < OPS || posted[1] < OPS || receives[0] < OPS || receives[1] < OPS; guard++) {
    assert.ok(guard < 1000);
    pair.run(() => {
      for (const side of [0, 1]) {
        if (moves && mover.below(2) === 0) pair.move(ends[side]);
        if (posted[side] < OPS) {
          const i = posted[side]++;
          const e = scripts[side].steps[i].expected;
          scripts[side].post(i, ends[side], ends[1 - side], e.length === 8 ? new BigUint64Array(e.slice().buffer)[0] : 0n);
        }
        if (receives[side] < OPS) {
          ends[side].postReceive(receives[side], RECEIVES + receives[side] * SLOT, SLOT);
          receives[side]++;
        }
      }
      return false;
    });
  }
  pair.run();
  for (const end of ends) assert.equal(end.sendQueue.count, 0, 'a request never completed: a hang');
  const isClean = pair.faults.drop + pair.faults.corrupt + pair.faults.delay === 0;
  const strict = isClean && !ends.some((end) => end.sent.some((c) => c.status === STATUS.RNR_RETRY_EXC_ERR));
  const good = [verify(a, b, scripts[0], strict), verify(b, a, scripts[1], strict)];
  for (const side of [0, 1]) {
    assert.deepEqual(ends[side].bytes.subarray(0, LANDING), pristine[side].subarray(0, LANDING), 'what was sent is unchanged');
  }
  return good.filter(Boolean).length;
}

/** Plays many seeds. Returns how many sides ended without an error, and of how many runs. */
function playSeeds(way: Way, normalCount: number): { good: number; count: number } {
  const only = process.env['VERBENA_SEED'];
  const first = only === undefined ? 1 : Number(only);
  const count = only === undefined ? Number(process.env['VERBENA_SEEDS'] ?? normalCount) : 1;
  let good = 0;
  for (let seed = first; seed < first + count; seed++) {
    try {
      good += play(seed, way);
    } catch (error) {
      throw new Error(
        `seed ${seed} failed; replay it with VERBENA_SEED=${seed}: ${error instanceof Error ? error.stack : error}`,
      );
    }
  }
  return { good, count };
}

test('random operations over a faulty link arrive once, in order, at the right place, or end in a correct error', () => {
  const { good, count } = playSeeds('plain', 1000);
  if (count >= 100)
    assert.ok(good > count, `only ${good} of ${2 * count} sides ended without an error: the faults are too heavy`);
});

test('the same holds when endpoints are taken over in the middle by others that know only what was copied', () => {
  const { good, count } = playSeeds('moved', 100);
  if (count >= 100) assert.ok(good > count, `only ${good} of ${2 * count} sides ended without an error`);
});

test('the same holds when C carries out the usual packets, and when it does so only now and then', () => {
  const { good, count } = playSeeds('fast', 200);
  if (count >= 100) assert.ok(good > count, `only ${good} of ${2 * count} sides ended without an error`);
  assert.ok(FastEndpoint.share > 0.3, `C carried out only ${FastEndpoint.share} of all packets`);
});
