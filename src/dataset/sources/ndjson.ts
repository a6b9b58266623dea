/** One JSON value per line. */

import { DatasetError } from '../errors.js';
import type { PlanNode } from '../plan/node.js';
import { type TextOptions, textNode } from './text.js';

export function ndjsonNode(paths: string | readonly string[], options: TextOptions): PlanNode {
  return textNode('ndjson', paths, options, (lines, { path }, _, task) => {
    const rows: unknown[] = [];
    for (const [i, line] of lines.entries()) {
      if (line.trim() === '') continue;
      try {
        rows.push(JSON.parse(line));
      } catch (error) {
        throw new DatasetError(
          'DATASET_INPUT',
          `${path}: line ${i + 1} behind ${task.position} is no JSON (${(error as Error).message}): ${line.slice(0, 120)}`,
        );
      }
    }
    return rows;
  });
}
