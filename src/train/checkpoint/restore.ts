/**
 * Reads checkpoints: the newest whole one, whatever number of ranks wrote it. One that is torn or was changed is passed over, and said.
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Model, Optimizer } from '../../nn/index.js';
import { decodeManifest, MANIFEST, type Manifest, partOf, stepFolder, stepOf } from './layout.js';
import { decodeSafetensors, encodeSafetensors, type Tensor } from './safetensors.js';

/** Steps of the whole checkpoints in a directory, newest first. Empty when there is no such directory. */
export function listCheckpoints(directory: string): number[] {
  if (!existsSync(directory)) return [];
  const steps = readdirSync(directory).flatMap((name) => stepOf(name) ?? []);
  return steps.sort((a, b) => b - a);
}

export interface RestoreOptions {
  /** What the run is made with; a checkpoint of other settings is an error. Default: not compared. */
  readonly settings?: Readonly<Record<string, string | number>>;
  /** Told of a checkpoint that is torn or corrupt, before the one before it is tried. */
  onBad?(step: number, reason: string): void;
}

/** Where the run that was restored stands. */
export interface Restored {
  /** Steps done: give it to `distribute` as `stepsDone`. */
  readonly step: number;
  /** Shards that it was written in. */
  readonly shards: number;
}

/**
 * Puts the newest good checkpoint into model and optimizer. Undefined: there is none, and nothing was changed. One rank is enough: `distribute`
 * gives its state to the others. What a run left unfinished there is removed, so that the one to come does not finish it. @throws Error when a good checkpoint belongs to another model, optimizer or run.
 */
export function restoreCheckpoint(
  directory: string,
  model: Model,
  optimizer: Optimizer,
  options: RestoreOptions = {},
): Restored | undefined {
  const unfinished = existsSync(directory) ? readdirSync(directory).filter((name) => name.endsWith('.partial')) : [];
  for (const name of unfinished) rmSync(join(directory, name), { recursive: true, force: true });
  for (const step of listCheckpoints(directory)) {
    const folder = join(directory, stepFolder(step));
    let read: { manifest: Manifest; shards: ReadonlyMap<string, Tensor>[] };
    try {
      read = readFolder(folder);
    } catch (error) {
      options.onBad?.(step, (error as Error).message);
      continue;
    }
    const { manifest, shards } = read;
    check(manifest, model, optimizer, options.settings);
    for (const [name, to] of [
      ['parameters', model.parameters],
      ['optimizer', optimizer.state],
    ] as const) {
      for (const [shard, tensors] of shards.entries()) {
        to.set(tensors.get(name)?.data as Float32Array, partOf(to.length, shard, shards.length)[0]);
      }
    }
    model.state.set(shards[0].get('state')?.data as Float32Array);
    optimizer.steps = manifest.optimizer.steps;
    return { step: manifest.step, shards: shards.length };
  }
  return undefined;
}

function readFolder(folder: string): { manifest: Manifest; shards: ReadonlyMap<string, Tensor>[] } {
  const manifest = decodeManifest(readFileSync(join(folder, MANIFEST), 'utf8'));
  const shards = manifest.shards.map(({ file, bytes, sha256 }, shard) => {
    const content = readFileSync(join(folder, file));
    if (content.length !== bytes) throw new Error(`${file} has ${content.length} bytes instead of ${bytes}`);
    if (createHash('sha256').update(content).digest('hex') !== sha256) throw new Error(`${file} does not have its checksum`);
    const { tensors } = decodeSafetensors(content);
    for (const [name, count] of [
      ['parameters', manifest.parameters],
      ['optimizer', manifest.optimizer.floats],
    ] as const) {
      const [from, to] = partOf(count, shard, manifest.shards.length);
      if (tensors.get(name)?.data.length !== to - from) throw new Error(`${file} lacks its part of ${name}`);
    }
    if (shard === 0 && tensors.get('state')?.data.length !== manifest.state) throw new Error(`${file} lacks the untrained state`);
    return tensors;
  });
  return { manifest, shards };
}

function check(manifest: Manifest, model: Model, optimizer: Optimizer, settings: RestoreOptions['settings']): void {
  const wanted = {
    parameters: model.parameters.length,
    state: model.state.length,
    optimizer: `${optimizer.kind} of ${optimizer.state.length}`,
    ...settings,
  };
  const found: Record<string, string | number> = {
    parameters: manifest.parameters,
    state: manifest.state,
    optimizer: `${manifest.optimizer.kind} of ${manifest.optimizer.floats}`,
    ...manifest.settings,
  };
  for (const [name, value] of Object.entries(wanted)) {
    if (found[name] !== value) {
      throw new Error(
        `the checkpoint of step ${manifest.step} was made with ${name} ${found[name] ?? 'unknown'}, this run has ${value}: use another directory, or the old settings`,
      );
    }
  }
}

/** Writes the weights as one safetensors file, a tensor for each parameter, whole or not at all. Untrained state is the tensor `state`. */
export function exportWeights(model: Model, path: string, metadata: Readonly<Record<string, string>> = {}): void {
  const tensors: Tensor[] = model.ranges.map(({ name, shape, from, to }) => ({
    name,
    shape: [...shape],
    data: model.parameters.subarray(from, to),
  }));
  if (model.state.length > 0) tensors.push({ name: 'state', shape: [model.state.length], data: model.state });
  const temporary = `${path}.${process.pid}.tmp`;
  try {
    writeFileSync(temporary, encodeSafetensors(tensors, metadata));
    renameSync(temporary, path);
  } finally {
    rmSync(temporary, { force: true });
  }
}

/** Reads weights that `exportWeights` wrote. @throws Error when a tensor is missing or has another shape. */
export function importWeights(model: Model, path: string): void {
  const { tensors } = decodeSafetensors(readFileSync(path));
  const taken = model.ranges.map(({ name, shape }) => {
    const tensor = tensors.get(name);
    if (tensor === undefined) throw new Error(`${path} has no tensor '${name}': it has ${[...tensors.keys()].join(', ')}`);
    if (tensor.shape.join() !== shape.join()) {
      throw new Error(`tensor '${name}' is [${tensor.shape.join(', ')}], the model wants [${shape.join(', ')}]`);
    }
    return tensor.data as Float32Array;
  });
  for (const [i, { from }] of model.ranges.entries()) model.parameters.set(taken[i], from);
  const state = tensors.get('state');
  if (state !== undefined && state.data.length === model.state.length) model.state.set(state.data as Float32Array);
}
