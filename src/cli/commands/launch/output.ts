/** Where the lines of ranks go: to the terminal with a prefix, or into one file a rank. */

import { closeSync, openSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeFolder } from '../../../native/folder.js';
import type { Style } from '../../style.js';
import { systemErrorWords } from '../../system-error.js';

export interface Output {
  line(rank: number, stream: 'stdout' | 'stderr', line: string): void;
  close(): void;
}

const COLOURS = ['cyan', 'green', 'yellow', 'magenta', 'blue'] as const;

/** '[ 3] ' with as many columns for every rank, in a colour of its own. */
function prefixOf(rank: number, size: number, style: Style): string {
  const width = String(size - 1).length;
  return `${style[COLOURS[rank % COLOURS.length]](`[${String(rank).padStart(width)}]`)} `;
}

/** Prefixed lines: stdout of ranks to `out`, stderr to `err`. */
export function prefixedOutput(size: number, style: Style, out: (line: string) => void, err: (line: string) => void): Output {
  const prefixes = Array.from({ length: size }, (_, rank) => prefixOf(rank, size, style));
  return {
    line: (rank, stream, line) => (stream === 'stdout' ? out : err)(prefixes[rank] + line),
    close() {},
  };
}

/** `rank-3.log` for each rank in a directory that is made; both streams, as they come. A file that cannot be written is told of once; the job goes on. */
export function directoryOutput(directory: string, size: number, tell: (line: string) => void): Output {
  makeFolder(directory);
  const width = String(size - 1).length;
  const files = Array.from({ length: size }, (_, rank) =>
    openSync(join(directory, `rank-${String(rank).padStart(width, '0')}.log`), 'w'),
  );
  const broken = new Set<number>();
  return {
    line(rank, _stream, line) {
      if (broken.has(rank)) return;
      try {
        writeFileSync(files[rank], `${line}\n`);
      } catch (error) {
        broken.add(rank);
        tell(`verbena: lines of rank ${rank} are lost from here on: ${systemErrorWords(error) ?? (error as Error).message}`);
      }
    },
    close: () => files.forEach(closeSync),
  };
}
