/** `verbena sort gen | run | check`: the sort benchmark's records, 100 bytes with keys of 10. */

import { closeSync, existsSync, openSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { KERNEL, run } from '../../../dataset/kernels.js';
import { makeFolder } from '../../../native/folder.js';
import { type CommandGroup, defineCommand, UsageError } from '../../command.js';
import { formatCount, significant } from '../../size.js';
import { RankProgram } from './ranks.js';
import { type Checked, checkRecords } from './sort-check.js';
import type { SortArgument, SortResult } from './sort-process.js';

const WIDTH = 100;
/** Records of one file and of one write. */
const FILE_RECORDS = 2_500_000;
const AT_ONCE = 100_000;

/** 10000000, 10M, 1.5G: powers of ten. */
export function parseCount(text: string): number {
  const [, digits, unit] = /^(\d+(?:\.\d+)?)([KMG]?)$/i.exec(text) ?? [];
  const units: Readonly<Record<string, number>> = { '': 1, k: 1e3, m: 1e6, g: 1e9 };
  const count = Number(digits) * (units[(unit ?? '').toLowerCase()] ?? Number.NaN);
  if (!Number.isInteger(count) || count < 1) throw new UsageError(`a number of records is 1 or more, as in 10M: got ${text}`);
  return count;
}

export interface GenerateOptions {
  readonly records: number;
  readonly seed: number;
  /** Printable, one record a line. */
  readonly text: boolean;
}

const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`;

/** Writes records into a folder. Returns how many files. */
export async function generateRecords(folder: string, { records, seed, text }: GenerateOptions): Promise<number> {
  makeFolder(folder);
  let files = 0;
  for (let at = 0; at < records; files++) {
    const fd = openSync(join(folder, `records-${String(files).padStart(4, '0')}`), 'w');
    try {
      const end = Math.min(records, at + FILE_RECORDS);
      while (at < end) {
        const count = Math.min(AT_ONCE, end - at);
        const bytes = new Uint8Array(count * WIDTH);
        await run(KERNEL.recordsGenerate, bytes, at, count, seed, text ? 1 : 0);
        writeFileSync(fd, bytes); // all of them, or an error
        at += count;
      }
    } finally {
      closeSync(fd);
    }
  }
  return files;
}

const gen = defineCommand({
  name: 'gen',
  summary: 'writes records to sort into a folder',
  positionals: [{ name: 'folder', summary: 'where they go; created when missing', required: true }],
  options: {
    records: { type: 'string', default: '1M', value: 'N', summary: 'how many; K, M and G are powers of ten' },
    seed: { type: 'integer', default: 1, min: 0, summary: 'the same seed gives the same records' },
    text: { type: 'flag', summary: 'printable records, one a line' },
  },
  examples: [{ line: 'verbena sort gen --records 10M in/', note: 'A gigabyte in four files.' }],
  async run({ options, positionals: [folder] }) {
    if (existsSync(folder) && readdirSync(folder).length > 0) throw new UsageError(`${folder} is not empty`);
    const records = parseCount(options.records);
    const files = await generateRecords(folder, { records, seed: options.seed, text: options.text });
    return {
      document: { folder, records, bytes: records * WIDTH, files },
      text: `${formatCount(records)} records in ${counted(files, 'file')} of ${folder}`,
    };
  },
});

const sortRun = defineCommand({
  name: 'run',
  summary: 'sorts the records of a folder into another folder',
  description:
    'Progress goes to stderr: the phase, how much is done, and how fast. The files of the result, part-00000 and on, are in order one behind the other.',
  positionals: [
    { name: 'in', summary: 'a folder of records', required: true },
    { name: 'out', summary: 'a new or empty folder', required: true },
  ],
  options: {
    ranks: { type: 'integer', default: 2, min: 1, max: 256, summary: 'processes' },
    memory: { type: 'size', min: 16 << 20, summary: 'what each rank may hold; default: its share of half the machine' },
    shuffle: { type: 'choice', choices: ['auto', 'rdma', 'sort-tcp'], default: 'auto', summary: 'how records travel' },
    spill: {
      type: 'string',
      value: 'DIR',
      summary: 'where to put what does not fit; default: the directory for temporary files',
    },
  },
  examples: [{ line: 'verbena sort run in/ out/ --ranks 2 --memory 512M', note: 'However much there is.' }],
  async run({ options, positionals: [from, to], signal, progress }) {
    if (!existsSync(from)) throw new UsageError(`there is no folder ${from}`);
    const argument: SortArgument = {
      from,
      to,
      session: {
        shuffle: options.shuffle,
        ...(options.memory === undefined ? {} : { memoryBytes: options.memory }),
        ...(options.spill === undefined ? {} : { spillDirectory: options.spill }),
      },
    };
    const program = new RankProgram<SortResult>(new URL('./sort-process.js', import.meta.url), {
      ranks: options.ranks,
      argument,
      signal,
      progress,
    });
    const result = await program.answer();
    await program.close();
    const text = `${formatCount(result.records)} records in ${significant(result.ms / 1000)} s, ${significant(result.bytes / result.ms / 1e6)} GB/s, at most ${significant(result.peakBytes / 2 ** 20)} MiB a rank`;
    return { document: result, text };
  },
});

const check = defineCommand({
  name: 'check',
  summary: 'verifies that a folder is sorted, over all its files, and counts and sums its records',
  description: 'The sum does not depend on the order: compare it with that of the input (verbena sort check in/ says it too).',
  positionals: [
    { name: 'folder', summary: 'the files of a sort', required: true },
    { name: 'input', summary: 'the folder that was sorted: count and sum are compared with it' },
  ],
  options: {},
  examples: [{ line: 'verbena sort check out/ in/', note: 'Sorted, and the same records as in in/.' }],
  async run({ positionals: [folder, input] }) {
    if (!existsSync(folder) || !statSync(folder).isDirectory()) throw new UsageError(`there is no folder ${folder}`);
    const found = await checkRecords(folder);
    const before: Checked | undefined = input === undefined ? undefined : await checkRecords(input);
    const isSame = before === undefined || (before.records === found.records && before.checksum === found.checksum);
    const isSorted = found.inversions === 0;
    const words = [
      `${formatCount(found.records)} records in ${counted(found.files, 'file')}`,
      isSorted ? 'sorted' : `NOT sorted: ${found.inversions} are below their predecessor, first in ${found.firstInversion}`,
      `${found.duplicates} equal keys`,
      `checksum ${found.checksum}`,
      ...(before
        ? [
            isSame
              ? 'the same records as the input'
              : `NOT the records of the input (${before.records}, checksum ${before.checksum})`,
          ]
        : []),
    ];
    return {
      document: { ...found, isSorted, ...(before ? { isSame, input: before } : {}) },
      text: words.join(', '),
      exitCode: isSorted && isSame ? 0 : 1,
    };
  },
});

export const sort: CommandGroup = {
  name: 'sort',
  summary: 'makes, sorts and checks records of the sort benchmark',
  commands: [gen, sortRun, check],
  examples: [...gen.examples, ...sortRun.examples, ...check.examples],
};
