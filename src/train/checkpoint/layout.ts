/**
 * Where a checkpoint lies and what it says of itself.
 *
 *   directory/
 *     step-000000120/                    whole: the name appears by rename, when everything in it is on the disk
 *       shard-0-of-2.safetensors         parts of parameters and optimizer state, the untrained state in shard 0
 *       shard-1-of-2.safetensors
 *       manifest.json                    step, sizes, sha256 of every shard, and a checksum of itself
 *     step-000000140.partial/            under way, or left by a crash
 */
import { createHash } from 'node:crypto';

export interface ShardEntry {
  readonly file: string;
  readonly bytes: number;
  readonly sha256: string;
}

export interface Manifest {
  readonly format: 1;
  /** Steps done. */
  readonly step: number;
  readonly optimizer: { readonly kind: string; readonly steps: number; readonly floats: number };
  readonly parameters: number;
  readonly state: number;
  /** What the run was made with, for a resumed run to compare: sampler, seeds, batch. */
  readonly settings: Readonly<Record<string, string | number>>;
  readonly shards: readonly ShardEntry[];
}

export const MANIFEST = 'manifest.json';

export function stepFolder(step: number): string {
  return `step-${String(step).padStart(9, '0')}`;
}

/** The step of a folder's name; undefined for other names. */
export function stepOf(folder: string): number | undefined {
  const match = /^step-(\d{9,})$/.exec(folder);
  return match ? Number(match[1]) : undefined;
}

export function shardFile(shard: number, shards: number): string {
  return `shard-${shard}-of-${shards}.safetensors`;
}

/** Part `shard` of `count` elements. */
export function partOf(count: number, shard: number, shards: number): [from: number, to: number] {
  return [Math.floor((count * shard) / shards), Math.floor((count * (shard + 1)) / shards)];
}

const digest = (text: string) => createHash('sha256').update(text).digest('hex');

export function encodeManifest(manifest: Manifest): string {
  const body = JSON.stringify(manifest);
  return `${JSON.stringify({ sha256: digest(body), manifest: body })}\n`;
}

/** @throws Error when it is torn or was changed. */
export function decodeManifest(text: string): Manifest {
  const { sha256, manifest } = JSON.parse(text) as { sha256: string; manifest: string };
  if (typeof manifest !== 'string' || digest(manifest) !== sha256) throw new Error('the manifest does not have its checksum');
  const parsed = JSON.parse(manifest) as Manifest;
  if (parsed.format !== 1) throw new Error(`format ${String(parsed.format)} is not known to this version`);
  return parsed;
}
