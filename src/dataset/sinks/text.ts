/** Text files as output. */

import type { Engine } from '../engine.js';
import { DatasetError } from '../errors.js';
import type { ActionOptions } from '../options.js';
import type { PlanNode } from '../plan/node.js';
import { OutputFile, saveParts } from './parts.js';

/** The lines of a batch of rows, each with its line break. */
type Format = (rows: readonly unknown[]) => string;

/** Saves rows as text; `begin` makes the format of a file. */
export function saveText(
  engine: Engine,
  node: PlanNode,
  folder: string,
  suffix: string,
  options: ActionOptions,
  begin: () => Format,
): Promise<void> {
  return saveParts(engine, node, folder, suffix, options, async (batches, path, task) => {
    const file = new OutputFile(path);
    const format = begin();
    try {
      for await (const batch of batches) if (batch.length > 0) file.write(Buffer.from(format(batch as readonly unknown[])));
      file.commit(task);
    } finally {
      file.close();
    }
  });
}

export interface CsvSaveOptions extends ActionOptions {
  /** Only these, in this order. Default: the fields of the first row of a file. */
  readonly columns?: readonly string[];
  /** Default ','. */
  readonly delimiter?: string;
  /** Names in the first line of each file. Default true. */
  readonly header?: boolean;
}

export function csvFormat({ columns, delimiter = ',', header = true }: CsvSaveOptions): Format {
  const cell = (value: unknown) => {
    const text = value === undefined || value === null ? '' : String(value);
    return /["\r\n]/.test(text) || text.includes(delimiter) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  let names: readonly string[] | undefined;
  return (rows) => {
    const isFirst = names === undefined;
    names ??= columns ?? Object.keys(rows[0] as object);
    const lines = isFirst && header ? [names.map(cell).join(delimiter)] : [];
    for (const row of rows as readonly Record<string, unknown>[]) {
      if (!columns) checkFields(row, names);
      lines.push(names.map((name) => cell(row[name])).join(delimiter));
    }
    return `${lines.join('\n')}\n`;
  };
}

/** @throws DATASET_SCHEMA for a field that is no column: it would be lost. */
export function checkFields(row: Readonly<Record<string, unknown>>, names: readonly string[]): void {
  for (const name in row) {
    if (names.includes(name)) continue;
    throw new DatasetError(
      'DATASET_SCHEMA',
      `a row has a field ${name}, and the first row had only ${names.join(', ')}: give all rows the same fields`,
    );
  }
}
