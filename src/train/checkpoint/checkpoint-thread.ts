/**
 * The thread that writes a rank's shards: copies, hashes, writes, syncs, renames. The thread of the first rank also commits: when every shard has its
 * `.sum` beside it, it writes the manifest and gives the folder its name. The step never waits for any of this.
 */
/// <reference lib="es2024.sharedmemory" />
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { open, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parentPort } from 'node:worker_threads';
import { loadAddon } from '../../native/load.js';
import { addressOf, copyBytes } from '../../nn/kernels.js';
import { encodeManifest, MANIFEST, type Manifest, type ShardEntry, shardFile, stepFolder, stepOf } from './layout.js';
import { PIECE, type Piece } from './snapshot.js';

/** What stays the same from one checkpoint to the next; sent again when the ranks change. */
export interface ShardLayout {
  readonly directory: string;
  readonly shard: number;
  readonly shards: number;
  readonly header: Uint8Array;
  /** What follows the header, where it lies in this process. */
  readonly pieces: readonly Piece[];
  /** How many shards the step has asked for, in the slots one after the other. It rings here: a message would take several times as long to send. */
  readonly bell: Int32Array;
  readonly slots: readonly Slot[];
  readonly manifest: Omit<Manifest, 'shards' | 'step' | 'optimizer'> & {
    readonly optimizer: Omit<Manifest['optimizer'], 'steps'>;
  };
  /** Checkpoints that are kept. */
  readonly keep: number;
  /** How long the first rank waits for the shards of the others, ms. */
  readonly commitTimeoutMs: number;
}

/** A shard to write, in shared memory: to be copied before the step writes its memory again. */
export interface Slot {
  /** What the pieces are (PIECE), and those that the step has saved. */
  readonly words: Int32Array;
  readonly saved: Uint8Array;
  /** Steps done, by the training and by the optimizer. */
  readonly steps: Float64Array;
  /** What the step changes earlier: small, and saved at once. */
  readonly state: Float32Array;
}

/** This rank has no room for the checkpoint of this step. */
export interface LeftOut {
  readonly leftOut: number;
}

export interface ShardWritten {
  /** Undefined: this rank had none for it, and has said so. */
  readonly slot: number | undefined;
  readonly step: number;
  /** The first rank tells of all: the checkpoint is whole, or was left unfinished because a rank had no room for it or is gone. */
  readonly outcome: 'own shard' | 'whole' | 'left out';
  readonly error?: string;
  readonly ms: number;
}

/** Rests around each piece, ms: on a machine whose cores all compute, the step is held up for a piece at most. Copying has to end before the step does. */
const COPY_REST_MS = 0.02;
const WRITE_REST_MS = 1;
const never = new Int32Array(new SharedArrayBuffer(4));
/** A piece is copied soon after a rest is over, also where the step computes on every core. */
const SLICE_US = 100;
loadAddon().shortenSlice(SLICE_US);

/** Writes the file whole or not at all; the next checkpoint can be copied meanwhile. Returns its sha256. */
async function writeDurably(path: string, chunks: readonly Uint8Array[]): Promise<string> {
  const temporary = `${path}.tmp`;
  const hash = createHash('sha256');
  const file = await open(temporary, 'w', 0o644);
  try {
    for (const chunk of chunks) {
      hash.update(chunk);
      await file.appendFile(chunk);
      await pause(WRITE_REST_MS);
    }
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(temporary, path);
  return hash.digest('hex');
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

let current: ShardLayout | undefined;
let queue = Promise.resolve();

/** Copies what the step has not saved. Returns the shard's data, in order. */
function copy({ pieces }: ShardLayout, { words, saved, state }: Slot, own: Uint8Array): Uint8Array[] {
  const data = pieces.map(({ address, bytes, at }, i) => {
    Atomics.wait(never, 0, 0, COPY_REST_MS);
    if (Atomics.compareExchange(words, i, PIECE.open, PIECE.taken) === PIECE.open) copyBytes(address, addressOf(own) + at, bytes);
    const isOwn = Atomics.compareExchange(words, i, PIECE.taken, PIECE.copied) === PIECE.taken;
    return (isOwn ? own : saved).subarray(at, at + bytes);
  });
  return [...data, new Uint8Array(state.buffer, state.byteOffset, state.byteLength)];
}

function partialFolder({ directory }: ShardLayout, step: number): string {
  const partial = join(directory, `${stepFolder(step)}.partial`);
  mkdirSync(partial, { recursive: true });
  return partial;
}

/** What a rank says of its shard, beside it: its sum, or nothing, for which a full disk has room. */
function sayOf(layout: ShardLayout, partial: string, said: ShardEntry | undefined): void {
  const path = join(partial, `${shardFile(layout.shard, layout.shards)}.sum`);
  writeFileSync(`${path}.tmp`, said === undefined ? '' : JSON.stringify(said));
  renameSync(`${path}.tmp`, path);
}

async function write(
  layout: ShardLayout,
  steps: readonly [done: number, optimizer: number],
  data: readonly Uint8Array[],
): Promise<ShardWritten['outcome']> {
  const { shard, shards, header } = layout;
  const partial = partialFolder(layout, steps[0]);
  const file = shardFile(shard, shards);
  const bytes = data.reduce((sum, chunk) => sum + chunk.length, header.length);
  let failure: unknown;
  try {
    const sha256 = await writeDurably(join(partial, file), [header, ...data]);
    sayOf(layout, partial, { file, bytes, sha256 });
  } catch (error) {
    failure = error;
    for (const path of [file, `${file}.tmp`]) rmSync(join(partial, path), { recursive: true, force: true });
    sayOf(layout, partial, undefined);
  }
  const isWhole = shard === 0 && (await commit(layout, steps, partial));
  if (failure !== undefined) throw failure;
  return shard > 0 ? 'own shard' : isWhole ? 'whole' : 'left out';
}

async function commit(
  layout: ShardLayout,
  [step, optimizerSteps]: readonly [done: number, optimizer: number],
  partial: string,
): Promise<boolean> {
  const { directory, shards, keep, commitTimeoutMs } = layout;
  const sums = Array.from({ length: shards }, (_, shard) => join(partial, `${shardFile(shard, shards)}.sum`));
  const deadline = performance.now() + commitTimeoutMs;
  while (!sums.every((path) => existsSync(path))) {
    // A rank was lost: the next checkpoint takes the place of this one.
    if (layout !== current || performance.now() > deadline) return false;
    await pause(5);
  }
  // All have said their word: what cannot be made whole now never will be.
  try {
    const said = sums.map((path) => readFileSync(path, 'utf8')).filter((text) => text !== '');
    if (said.length < shards) return false;
    const manifest = {
      ...layout.manifest,
      step,
      optimizer: { ...layout.manifest.optimizer, steps: optimizerSteps },
      shards: said.map((text) => JSON.parse(text) as ShardEntry),
    };
    await writeDurably(join(partial, MANIFEST), [Buffer.from(encodeManifest(manifest))]);
    for (const path of sums) rmSync(path);
    await syncFolder(partial);
    const folder = join(directory, stepFolder(step));
    rmSync(folder, { recursive: true, force: true });
    renameSync(partial, folder);
  } finally {
    rmSync(partial, { recursive: true, force: true });
  }
  await syncFolder(directory);
  prune(directory, step, keep);
  return true;
}

/** Deletes all but the last `keep` checkpoints, and what was left unfinished before this one. */
function prune(directory: string, step: number, keep: number): void {
  const names = readdirSync(directory);
  const whole = names.filter((name) => (stepOf(name) ?? Number.POSITIVE_INFINITY) <= step).sort();
  for (const name of whole.slice(0, -keep)) rmSync(join(directory, name), { recursive: true, force: true });
  for (const name of names) {
    const begun = name.endsWith('.partial') ? stepOf(name.slice(0, -'.partial'.length)) : undefined;
    if (begun !== undefined && begun < step) rmSync(join(directory, name), { recursive: true, force: true });
  }
}

/** Does it after what was asked for before, and answers. */
function answer(
  slot: number | undefined,
  step: number,
  work: () => ShardWritten['outcome'] | Promise<ShardWritten['outcome']>,
): void {
  queue = queue.then(async () => {
    const began = performance.now();
    let said: Omit<ShardWritten, 'ms'>;
    try {
      said = { slot, step, outcome: await work() };
    } catch (error) {
      said = { slot, step, outcome: 'own shard', error: (error as Error).message };
    }
    parentPort?.postMessage({ ...said, ms: performance.now() - began } satisfies ShardWritten);
  });
}

/** Takes the shards that the step asks for, until there is another layout. */
async function watch(layout: ShardLayout): Promise<void> {
  const { bell, slots } = layout;
  // Touched now, so that no copy has to wait for pages.
  const copies = slots.map(({ saved }) => new Uint8Array(saved.length).fill(0));
  for (let taken = 0; layout === current; ) {
    await Atomics.waitAsync(bell, 0, taken).value;
    for (; taken < Atomics.load(bell, 0); taken++) {
      const slot = taken % slots.length;
      const [done, optimizer] = slots[slot].steps;
      const data = copy(layout, slots[slot], copies[slot]);
      answer(slot, done, () => write(layout, [done, optimizer], data));
    }
  }
}

parentPort?.on('message', (message: ShardLayout | LeftOut) => {
  if ('pieces' in message) {
    const before = current;
    current = message;
    if (before !== undefined) Atomics.notify(before.bell, 0);
    void watch(message);
    return;
  }
  const layout = current as ShardLayout;
  const { leftOut: step } = message;
  answer(undefined, step, () => {
    sayOf(layout, partialFolder(layout, step), undefined);
    return 'left out';
  });
});
