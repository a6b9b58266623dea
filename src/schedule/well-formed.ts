/**
 * Whether the instructions of a schedule make sense one by one, before anybody runs them: the first part of a proof.
 *
 * Lanes, peers, buffers, chunk ranges and step labels exist; a stream's posts stand in one lane, so do its takes; `input` is never written; a range
 * wraps only where both of its sides are the same range; a peer's buffer is accessed only if it holds all chunks.
 */

import { windowOf } from './contract.js';
import { describeInstruction, hasOther, isPost, isTake } from './instruction.js';
import type { Schedule } from './schedule.js';

/** What went wrong, in the order found. `kind` is stable, `text` is for people. */
export interface Flaw {
  readonly kind: 'shape' | 'stuck' | 'unmatched' | 'mismatch' | 'content' | 'race' | 'result';
  readonly text: string;
}

/** Adds what is wrong to `flaws`, up to `limit` of them. Returns the number of operations. */
export function checkShape(schedule: Schedule, flaws: Flaw[], limit: number): number {
  const { nodes, lanes, chunks, buffers, steps } = schedule;
  const streamLane = new Map<number, number>();
  let operations = 0;
  for (let node = 0; node < nodes; node++) {
    const lastStep = lanes.map(() => 0);
    for (const i of schedule.program(node)) {
      const bad = (what: string): void => {
        if (flaws.length < limit) flaws.push({ kind: 'shape', text: `${describeInstruction(node, i)}: ${what}` });
      };
      if (i.op !== 'after') operations++;
      if (!(i.lane >= 0 && i.lane < lanes.length)) {
        bad(`there is no lane ${i.lane}`);
        continue;
      }
      if (i.step < lastStep[i.lane] || i.step >= steps) bad(`step ${i.step} falls in its lane or is not below ${steps}`);
      lastStep[i.lane] = i.step;
      if (i.op === 'after') {
        if (!(i.peer >= 0 && i.peer < lanes.length) || i.peer === i.lane) bad(`no other lane ${i.peer} to wait for`);
        continue;
      }
      const self = i.op === 'copy' || i.op === 'reduce';
      if (i.op !== 'multicast' && !(i.peer >= 0 && i.peer < nodes && (i.peer === node) === self))
        bad(`peer ${i.peer} is impossible`);
      if (isPost(i.op) || isTake(i.op)) {
        const peer = i.op === 'multicast' ? nodes : i.peer;
        const key = ((node * 2 + (isPost(i.op) ? 1 : 0)) * (nodes + 1) + peer) * 256 + i.channel;
        const lane = streamLane.get(key) ?? i.lane;
        streamLane.set(key, lane);
        if (lane !== i.lane) bad(`lanes ${lane} and ${i.lane} share one stream, so its order is open`);
      }
      if (i.op === 'signal' || i.op === 'wait') continue;
      if (i.count < 1 || i.count > chunks) bad(`count ${i.count} is not 1 .. ${chunks}`);
      const sides: [number, number, number][] = [[node, i.buffer, i.first]];
      if (hasOther(i.op)) sides.push([i.peer, i.otherBuffer, i.otherFirst]);
      for (const [owner, id, first] of sides) {
        if (id < 0 || id >= buffers.length) bad(`there is no buffer ${id}`);
        else if (owner >= 0 && owner < nodes && !inWindow(schedule, owner, id, first, i.count))
          bad(`chunks ${first}+${i.count} are outside ${buffers[id].name} of ${owner}`);
      }
      if (hasOther(i.op) && i.first !== i.otherFirst && Math.max(i.first, i.otherFirst) + i.count > chunks)
        bad('a range wraps on one side only');
      const reachesOut = i.op === 'read' || i.op === 'readReduce' || i.op === 'write';
      if (
        reachesOut &&
        buffers[i.otherBuffer] !== undefined &&
        i.peer >= 0 &&
        i.peer < nodes &&
        windowOf(schedule, i.otherBuffer, i.peer).count !== chunks
      )
        bad("the peer's buffer does not hold all chunks");
      const target = i.op === 'write' ? i.otherBuffer : i.buffer;
      if (i.op !== 'send' && i.op !== 'multicast' && buffers[target]?.name === 'input') bad('writes into the input');
    }
  }
  return operations;
}

function inWindow(schedule: Schedule, owner: number, id: number, first: number, count: number): boolean {
  const window = windowOf(schedule, id, owner);
  const relative = (first - window.first + schedule.chunks) % schedule.chunks;
  return first >= 0 && first < schedule.chunks && (window.count === schedule.chunks || relative + count <= window.count);
}
