/** Reads records of 100 bytes and says whether they are in order, how many there are, and their sum. */

import { closeSync, openSync, readdirSync, readSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { addressOf, KERNEL, run } from '../../../dataset/kernels.js';

const WIDTH = 100;
const KEY = 10;
const CHUNK = 40_000 * WIDTH;
const SUM_MODULUS = 2 ** 52;

export interface Checked {
  readonly records: number;
  readonly files: number;
  readonly inversions: number;
  readonly duplicates: number;
  /** Sum of a hash of each record: the same for the same records in any order. */
  readonly checksum: string;
  readonly firstInversion: string | undefined;
}

/** @throws Error for a file that is no whole number of records. */
export async function checkRecords(folder: string): Promise<Checked> {
  const names = readdirSync(folder)
    .filter((name) => !/^[._]/.test(name))
    .sort();
  const last = new Uint8Array(KEY);
  const bytes = new Uint8Array(CHUNK);
  let [records, inversions, duplicates, sum] = [0, 0, 0, 0];
  let firstInversion: string | undefined;
  for (const name of names) {
    const path = join(folder, name);
    if (statSync(path).size % WIDTH !== 0) throw new Error(`${path} is no whole number of records of ${WIDTH} bytes`);
    const fd = openSync(path, 'r');
    try {
      for (;;) {
        const got = readSync(fd, bytes, 0, CHUNK, null);
        if (got === 0) break;
        const block = await run(KERNEL.recordsCheck, bytes, got / WIDTH, WIDTH, KEY, addressOf(last), records > 0 ? 1 : 0, last);
        sum = (sum + block[1]) % SUM_MODULUS;
        if (block[2] > 0) firstInversion ??= name;
        inversions += block[2];
        duplicates += block[3];
        records += got / WIDTH;
      }
    } finally {
      closeSync(fd);
    }
  }
  return { records, files: names.length, inversions, duplicates, checksum: sum.toString(16), firstInversion };
}
