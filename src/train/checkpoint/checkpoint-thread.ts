/**
 * The thread that writes a rank's shards: copies, hashes, writes, syncs, renames. The thread of the first rank also commits: when every shard has its
 * `.sum` beside it, it writes the manifest and gives the folder its name. The step never waits for any of this.
 */
import { createHash } from 'node:crypto';
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parentPort } from 'node:worker_threads';
import { loadAddon } from '../../native/load.js';
import { COPY } from './copy.js';
import { encodeManifest, MANIFEST, type Manifest, type ShardEntry, shardFile, stepFolder, stepOf } from './layout.js';

/** A shard to write. */
export interface WriteShard {
  readonly slot: number;
  readonly directory: string;
  readonly shard: number;
  readonly shards: number;
  readonly header: Uint8Array;
  /** Where the data behind the header lies in this process: addresses and bytes. To be copied before the step writes there again. */
  readonly sources: readonly { readonly address: number; readonly bytes: number }[];
  /** What the step changes before that: small, and sent along. */
  readonly state: Float32Array;
  /** Who copies, see COPY. */
  readonly control: Int32Array;
  /** The copy, where the step made it. */
  readonly fallback: SharedArrayBuffer;
  readonly manifest: Omit<Manifest, 'shards'>;
  /** Checkpoints that are kept. */
  readonly keep: number;
  /** How long the first rank waits for the shards of the others, ms. */
  readonly commitTimeoutMs: number;
}

/** Whether all ranks write the checkpoint of this slot. */
export interface WriteDecision {
  readonly slot: number;
  readonly write: boolean;
}

export interface ShardWritten {
  readonly slot: number;
  readonly step: number;
  /** The first rank: the checkpoint is whole. */
  readonly committed: boolean;
  readonly error?: string;
  readonly ms: number;
}

function writeDurably(path: string, chunks: readonly Uint8Array[]): void {
  const temporary = `${path}.tmp`;
  const fd = openSync(temporary, 'w', 0o644);
  try {
    for (const chunk of chunks) for (let at = 0; at < chunk.length; ) at += writeSync(fd, chunk, at);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
  renameSync(temporary, path);
}

function syncFolder(path: string): void {
  const fd = openSync(path, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Buffers of the copies, one a slot. */
const copies: Uint8Array[] = [];

/** Copies unless the step does, and tells. Undefined: the step does. */
function copy({ slot, sources, state, control }: WriteShard): Uint8Array | undefined {
  if (Atomics.compareExchange(control, 0, COPY.open, COPY.byThread) !== COPY.open) return undefined;
  const bytes = sources.reduce((sum, source) => sum + source.bytes, state.byteLength);
  if (copies[slot]?.length !== bytes) copies[slot] = new Uint8Array(bytes);
  const to = copies[slot];
  const addon = loadAddon();
  const command = new Float64Array(addon.command());
  let at = addon.addressOf(to.buffer as ArrayBuffer);
  for (const source of sources) {
    command[0] = at;
    command[1] = source.address;
    command[2] = source.bytes;
    if (source.bytes > 0) addon.copy();
    at += source.bytes;
  }
  Atomics.store(control, 0, COPY.copied);
  Atomics.notify(control, 0);
  to.set(new Uint8Array(state.buffer, state.byteOffset, state.byteLength), bytes - state.byteLength);
  return to;
}

/** The copy that the step makes or has made. */
function copyOfStep({ control, fallback }: WriteShard): Uint8Array {
  while (Atomics.load(control, 0) === COPY.byStep) Atomics.wait(control, 0, COPY.byStep);
  return new Uint8Array(fallback);
}

async function write(task: WriteShard, data: Uint8Array): Promise<boolean> {
  const { directory, shard, shards, header, manifest } = task;
  const partial = join(directory, `${stepFolder(manifest.step)}.partial`);
  mkdirSync(partial, { recursive: true });
  const file = shardFile(shard, shards);
  const sha256 = createHash('sha256').update(header).update(data).digest('hex');
  writeDurably(join(partial, file), [header, data]);
  const entry: ShardEntry = { file, bytes: header.length + data.length, sha256 };
  writeFileSync(join(partial, `${file}.sum.tmp`), JSON.stringify(entry));
  renameSync(join(partial, `${file}.sum.tmp`), join(partial, `${file}.sum`));
  return shard === 0 && commit(task, partial);
}

async function commit({ directory, shards, manifest, keep, commitTimeoutMs }: WriteShard, partial: string): Promise<boolean> {
  const sums = Array.from({ length: shards }, (_, shard) => join(partial, `${shardFile(shard, shards)}.sum`));
  const deadline = performance.now() + commitTimeoutMs;
  while (!sums.every((path) => existsSync(path))) {
    // A rank was lost, or was too busy for this one: the next checkpoint takes its place.
    if (performance.now() > deadline) return false;
    await pause(5);
  }
  const entries = sums.map((path) => JSON.parse(readFileSync(path, 'utf8')) as ShardEntry);
  writeDurably(join(partial, MANIFEST), [Buffer.from(encodeManifest({ ...manifest, shards: entries }))]);
  for (const path of sums) rmSync(path);
  syncFolder(partial);
  const whole = join(directory, stepFolder(manifest.step));
  rmSync(whole, { recursive: true, force: true });
  renameSync(partial, whole);
  syncFolder(directory);
  prune(directory, manifest.step, keep);
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

/** Copied, and not decided on yet. */
const held: { readonly task: WriteShard; readonly copied: Uint8Array | undefined }[] = [];
let queue = Promise.resolve();

async function decided({ slot, write: wanted }: WriteDecision): Promise<void> {
  const { task, copied } = held[slot];
  const began = performance.now();
  const said = { slot, step: task.manifest.step };
  try {
    const committed = wanted && (await write(task, copied ?? copyOfStep(task)));
    parentPort?.postMessage({ ...said, committed, ms: performance.now() - began } satisfies ShardWritten);
  } catch (error) {
    const answer = { ...said, committed: false, error: (error as Error).message, ms: performance.now() - began };
    parentPort?.postMessage(answer satisfies ShardWritten);
  }
}

parentPort?.on('message', (message: WriteShard | WriteDecision) => {
  if ('write' in message) queue = queue.then(() => decided(message));
  else held[message.slot] = { task: message, copied: copy(message) };
});
