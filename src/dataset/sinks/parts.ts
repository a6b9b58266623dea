/**
 * Output of several tasks into one folder, so that it is whole or not there: a task writes a file without a name and gives it its name at the end. Of two attempts the
 * first to do so wins; the other finds the name taken and drops its file, which has the same contents. A killed rank leaves nothing.
 */

import { closeSync, constants, openSync, readdirSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { getSystemErrorName } from 'node:util';
import { makeFolder } from '../../native/folder.js';
import { loadAddon } from '../../native/load.js';
import type { Engine } from '../engine.js';
import { DatasetError, systemError } from '../errors.js';
import type { ActionOptions } from '../options.js';
import type { PlanNode } from '../plan/node.js';
import type { Batch, Task } from '../plan/task.js';
import { valuesNode } from '../sources/values.js';

const O_TMPFILE = 0o20000000 | constants.O_DIRECTORY;

/** A file that appears under its name when it is complete. */
export class OutputFile {
  readonly path: string;
  readonly fd: number;
  #length = 0;
  #open = true;

  constructor(path: string) {
    this.path = path;
    try {
      this.fd = openSync(dirname(path), O_TMPFILE | constants.O_RDWR, 0o644);
    } catch (error) {
      throw systemError(`writing ${path}`, error);
    }
  }

  get length(): number {
    return this.#length;
  }

  /** @throws DATASET_DISK_FULL with the path. */
  write(bytes: Uint8Array): void {
    try {
      for (let done = 0; done < bytes.length; ) {
        done += writeSync(this.fd, bytes, done, Math.min(1 << 24, bytes.length - done), this.#length + done);
      }
    } catch (error) {
      throw systemError(`writing ${this.path}`, error);
    }
    this.#length += bytes.length;
  }

  /** Others have written to the descriptor. */
  grew(bytes: number): void {
    this.#length += bytes;
  }

  /** Gives it its name, unless the task is not wanted any more. One that is there already has the same contents: an earlier attempt was complete. */
  commit({ signal }: Task): void {
    signal.throwIfAborted();
    const errno = loadAddon().datasetName(this.fd, this.path);
    const name = errno === 0 ? '' : getSystemErrorName(-errno);
    if (errno !== 0 && name !== 'EEXIST') throw systemError(`naming ${this.path}`, { code: name, message: name });
  }

  close(): void {
    if (!this.#open) return;
    this.#open = false;
    closeSync(this.fd);
  }
}

function partName(partition: number, suffix: string): string {
  return `part-${String(partition).padStart(5, '0')}${suffix}`;
}

/** Runs a job whose tasks write one file each. All ranks call it. The file _SUCCESS says that all is there. */
export async function saveParts(
  engine: Engine,
  node: PlanNode,
  folder: string,
  suffix: string,
  { signal }: ActionOptions,
  write: (batches: AsyncIterable<Batch>, path: string, task: Task) => Promise<void>,
): Promise<void> {
  await engine.run(valuesNode([0], 1), async () => claimFolder(folder), { signal, isOfUser: false });
  try {
    const save = (batches: AsyncIterable<Batch>, task: Task) =>
      write(batches, join(folder, partName(task.partition, suffix)), task);
    await engine.run(node, save, { signal });
  } catch (error) {
    // When all have heard of the end, nobody gives a file its name any more.
    await engine.world.barrier({ timeoutMs: 10_000 }).catch(() => {}); // a rank is lost: it names nothing either
    if (engine.isDriver) for (const name of readdirSync(folder)) if (/^part-\d+/.test(name)) rmSync(join(folder, name));
    throw error;
  }
  // A job too, so that every rank finds it there.
  await engine.run(valuesNode([0], 1), async () => writeFileSync(join(folder, '_SUCCESS'), ''), { isOfUser: false });
}

function claimFolder(folder: string): void {
  try {
    makeFolder(folder);
    if (readdirSync(folder).length === 0) return;
  } catch (error) {
    throw systemError(`the output folder ${folder}`, error);
  }
  throw new DatasetError('DATASET_OUTPUT', `the output folder ${folder} is not empty: name a new one, or empty it`);
}
