/** CSV: fields in quotes may hold the delimiter and doubled quotes, but no line breaks, because a file is read in splits by several ranks. */

import { closeSync, openSync, readSync } from 'node:fs';
import { DatasetError } from '../errors.js';
import type { PlanNode } from '../plan/node.js';
import { inputFiles } from './files.js';
import { type TextOptions, textNode } from './text.js';

/** How a field becomes a value. */
type FieldType = 'string' | 'number' | 'boolean';

export interface CsvOptions extends TextOptions {
  /** Default ','. */
  readonly delimiter?: string;
  /** The first line of each file has the names. Default true; without it, `columns` gives them. */
  readonly header?: boolean;
  /** Names of the fields, in their order. Default: those of the first line. */
  readonly columns?: readonly string[];
  /** Fields that are not text. An empty number is NaN; booleans are true, false, 1, 0 or empty. What is none of that is DATASET_SCHEMA. */
  readonly types?: Readonly<Record<string, FieldType>>;
}

/** The fields of a line. @throws RangeError for a quote that does not end. */
export function splitCsv(line: string, delimiter: string): string[] {
  if (!line.includes('"')) return line.split(delimiter);
  const fields: string[] = [];
  let at = 0;
  for (;;) {
    let field = '';
    if (line[at] === '"') {
      for (at++; ; ) {
        const end = line.indexOf('"', at);
        if (end < 0) throw new RangeError('a quote does not end in this line');
        field += line.slice(at, end);
        at = end + 1;
        if (line[at] !== '"') break;
        field += '"';
        at++;
      }
    }
    const next = line.indexOf(delimiter, at);
    const end = next < 0 ? line.length : next;
    field += line.slice(at, end);
    fields.push(field);
    if (next < 0) return fields;
    at = next + delimiter.length;
  }
}

function firstLine(path: string): string {
  const fd = openSync(path, 'r');
  try {
    const bytes = Buffer.alloc(1 << 16);
    const n = readSync(fd, bytes, 0, bytes.length, 0);
    return bytes
      .toString('utf8', 0, n)
      .split('\n')[0]
      .replace(/\r$/, '')
      .replace(/^\ufeff/, '');
  } finally {
    closeSync(fd);
  }
}

export function csvNode(paths: string | readonly string[], options: CsvOptions): PlanNode {
  const { delimiter = ',', header = true, types = {} } = options;
  if (!header && !options.columns) throw new DatasetError('DATASET_INVALID', 'CSV without a header needs `columns`');
  const namesOf = new Map<string, readonly string[]>();
  const names = (path: string) => {
    let list = options.columns ?? namesOf.get(path);
    if (!list) {
      list = splitCsv(firstLine(path), delimiter);
      namesOf.set(path, list);
      const first = inputFiles(paths)[0].path;
      const expected = path === first ? list : splitCsv(firstLine(first), delimiter);
      if (expected.join('\0') !== list.join('\0')) {
        throw new DatasetError(
          'DATASET_SCHEMA',
          `${path} has the columns ${list.join(', ')}, but ${first} has ${expected.join(', ')}`,
        );
      }
    }
    return list;
  };
  return textNode('csv', paths, options, (lines, { path }, isFirst, task) => {
    const columns = names(path);
    const rows: unknown[] = [];
    for (let i = isFirst && header ? 1 : 0; i < lines.length; i++) {
      if (lines[i] === '') continue;
      const fields = splitFields(lines[i], delimiter, path, i, task.position);
      if (fields.length !== columns.length) {
        throw new DatasetError(
          'DATASET_SCHEMA',
          `${path}: line ${i + 1} behind ${task.position} has ${fields.length} fields, and there are ${columns.length} columns: ${lines[i].slice(0, 120)}`,
        );
      }
      const row: Record<string, unknown> = {};
      for (let c = 0; c < columns.length; c++) {
        const type = types[columns[c]];
        const value = type ? typedValue(fields[c], type) : fields[c];
        if (value === undefined) {
          throw new DatasetError(
            'DATASET_SCHEMA',
            `${path}: line ${i + 1} behind ${task.position} has no ${type} as ${columns[c]}: ${lines[i].slice(0, 120)}`,
          );
        }
        row[columns[c]] = value;
      }
      rows.push(row);
    }
    return rows;
  });
}

const BOOLEANS: Readonly<Record<string, boolean>> = { true: true, 1: true, false: false, 0: false, '': false };

/** A field as a value; undefined where it is none of that type. */
function typedValue(text: string, type: FieldType): unknown {
  if (type === 'boolean') return BOOLEANS[text.toLowerCase()];
  if (type === 'string') return text;
  if (text === '') return Number.NaN;
  const number = Number(text);
  return Number.isNaN(number) && text !== 'NaN' ? undefined : number;
}

function splitFields(line: string, delimiter: string, path: string, index: number, position: string): string[] {
  try {
    return splitCsv(line, delimiter);
  } catch (error) {
    throw new DatasetError(
      'DATASET_INPUT',
      `${path}: line ${index + 1} behind ${position}: ${(error as Error).message}; fields with line breaks cannot be read in splits`,
    );
  }
}
