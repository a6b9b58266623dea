/**
 * What every buffer holds after each step, symbolically: the film of a schedule, for drawings and for reading along.
 *
 * The schedule runs once; each write is kept with its step label. A chunk's content "after step s" is its last write with a label <= s.
 */

import { type Content, initialContent, windowOf } from './contract.js';
import { runSchedule } from './engine.js';
import { isReduction } from './instruction.js';
import type { Instruction, Schedule } from './schedule.js';

export interface Trace {
  /** Content of a chunk after `step`; -1: before the first. */
  content(node: number, buffer: number, chunk: number, step: number): Content | undefined;
}

interface Write {
  readonly step: number;
  readonly content: Content | undefined;
}

/** Runs the schedule symbolically. It should be a proved one: nothing is checked here. */
export function traceSchedule(schedule: Schedule): Trace {
  const { chunks } = schedule;
  const films: Write[][][][] = Array.from({ length: schedule.nodes }, (_, node) =>
    schedule.buffers.map((_, id) => {
      const window = windowOf(schedule, id, node);
      const list: Write[][] = [];
      for (let k = 0; k < window.count; k++) {
        const chunk = (window.first + k) % chunks;
        list[chunk] = [{ step: -1, content: initialContent(schedule, node, id, chunk) }];
      }
      return list;
    }),
  );

  const read = (node: number, id: number, first: number, count: number): (Content | undefined)[] =>
    Array.from({ length: count }, (_, k) => films[node][id][(first + k) % chunks]?.at(-1)?.content);

  const store = (i: Instruction, node: number, id: number, first: number, contents: readonly (Content | undefined)[]): void => {
    contents.forEach((content, k) => {
      const film = films[node][id][(first + k) % chunks];
      const own = film.at(-1)?.content;
      const sum =
        own !== undefined && content !== undefined
          ? { chunk: own.chunk, ranks: own.ranks | content.ranks, finished: i.finish }
          : undefined;
      film.push({ step: i.step, content: isReduction(i.op) ? sum : content });
    });
  };

  runSchedule<(Content | undefined)[]>(schedule, {
    post: (node, i) => (i.op === 'signal' ? [] : read(node, i.buffer, i.first, i.count)),
    take: (node, i, contents) => store(i, node, i.buffer, i.first, contents),
    move(node, i) {
      if (i.op === 'write') store(i, i.peer, i.otherBuffer, i.otherFirst, read(node, i.buffer, i.first, i.count));
      else store(i, node, i.buffer, i.first, read(i.peer, i.otherBuffer, i.otherFirst, i.count));
    },
  });

  return {
    content: (node, buffer, chunk, step) => films[node][buffer][chunk]?.findLast((write) => write.step <= step)?.content,
  };
}
