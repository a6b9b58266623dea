/** Text files as output. */

import type { Engine } from '../engine.js';
import type { PlanNode } from '../plan/node.js';
import { OutputFile, saveParts } from './parts.js';

/** Saves rows as text; `format` makes the lines of a batch. */
export function saveText(
  engine: Engine,
  node: PlanNode,
  folder: string,
  suffix: string,
  format: (rows: readonly unknown[], isFirst: boolean) => string,
): Promise<void> {
  return saveParts(engine, node, folder, suffix, async (batches, path) => {
    const file = new OutputFile(path);
    try {
      let isFirst = true;
      for await (const batch of batches) {
        const rows = batch as readonly unknown[];
        if (rows.length === 0) continue;
        file.write(Buffer.from(format(rows, isFirst)));
        isFirst = false;
      }
      file.commit();
    } finally {
      file.close();
    }
  });
}
