/**
 * The thread that writes a rank's shards: hashes, writes, syncs, renames. The thread of the first rank also commits: when every shard has its
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
import { encodeManifest, MANIFEST, type Manifest, type ShardEntry, shardFile, stepFolder, stepOf } from './layout.js';

/** A shard to write. */
export interface WriteShard {
  readonly slot: number;
  readonly directory: string;
  readonly shard: number;
  readonly shards: number;
  readonly header: Uint8Array;
  /** The data behind the header. */
  readonly data: SharedArrayBuffer;
  readonly manifest: Omit<Manifest, 'shards'>;
  /** Checkpoints that are kept. */
  readonly keep: number;
  /** How long the first rank waits for the shards of the others, ms. */
  readonly commitTimeoutMs: number;
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

async function write(task: WriteShard): Promise<boolean> {
  const { directory, shard, shards, header, manifest } = task;
  const partial = join(directory, `${stepFolder(manifest.step)}.partial`);
  mkdirSync(partial, { recursive: true });
  const file = shardFile(shard, shards);
  const data = new Uint8Array(task.data);
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

let queue = Promise.resolve();
parentPort?.on('message', (task: WriteShard) => {
  queue = queue.then(async () => {
    const began = performance.now();
    const said = { slot: task.slot, step: task.manifest.step };
    try {
      const committed = await write(task);
      parentPort?.postMessage({ ...said, committed, ms: performance.now() - began } satisfies ShardWritten);
    } catch (error) {
      const answer = { ...said, committed: false, error: (error as Error).message, ms: performance.now() - began };
      parentPort?.postMessage(answer satisfies ShardWritten);
    }
  });
});
