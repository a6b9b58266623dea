/**
 * A schedule as a picture: ranks from top to bottom, steps from left to right, an arrow for every message, and between the steps what each rank holds.
 *
 *   rank 0   ▐██▌▐  ▌ ──c0──►╲     ▐██▌▐ +▌
 *   rank 1   ▐  ▌▐██▌ ◄──c1──╱     ▐ +▌▐██▌
 *
 * One self-contained SVG, no scripts, no outside fonts. A box is a chunk, its colour says which; the number in it and its depth of colour say how
 * many contributions are combined; a check mark says that it is complete. Arrows carry the colour and the number of the chunks that travel; "+" at the end: they are
 * added to what is there.
 */

import { type Content, windowOf } from './contract.js';
import { isPost, isReduction } from './instruction.js';
import type { Instruction, Schedule } from './schedule.js';
import { type Trace, traceSchedule } from './trace.js';

export interface DrawOptions {
  /** Default: collective and algorithm. */
  readonly title?: string;
  /** A line below the title, e.g. the algorithm's description. Default: none. */
  readonly subtitle?: string;
  /** What nodes beyond the ranks are. Default 'node'. */
  readonly helperName?: string;
}

/** Most nodes, steps and chunks that still make a readable picture. */
const MOST_NODES = 40;
const MOST_STEPS = 64;

const ROW = 62;
const BOX = 22;
const ARROWS = 96;
const LEFT = 92;
const TOP = 96;
const PAPER = '#ffffff';
const INK = '#1f2933';
const FAINT = '#9aa5b1';
const LINE = '#e4e7eb';
const PALETTE = [
  '#2f7ed8',
  '#e4572e',
  '#2a9d5c',
  '#8e5bd6',
  '#d99a00',
  '#12a4b5',
  '#d6458a',
  '#6b7f1f',
  '#a0622d',
  '#5a6acf',
  '#b03a48',
  '#3f8f7f',
];

/** @throws RangeError when the schedule is too large to be read as a picture; draw a smaller one. */
export function drawSchedule(schedule: Schedule, options: DrawOptions = {}): string {
  const { nodes, steps } = schedule;
  if (nodes > MOST_NODES || steps > MOST_STEPS) {
    throw new RangeError(
      `a picture of ${nodes} nodes and ${steps} steps cannot be read: draw at most ${MOST_NODES} nodes and ${MOST_STEPS} steps`,
    );
  }
  return new Picture(schedule, options).svg();
}

/** A row of boxes: one buffer of one node. */
interface Strip {
  readonly buffer: number;
  readonly chunks: readonly number[];
}

class Picture {
  readonly #schedule: Schedule;
  readonly #options: DrawOptions;
  readonly #trace: Trace;
  readonly #box: number;
  readonly #stripWidth: number;
  readonly #rowHeight: number;
  readonly #parts: string[] = [];

  constructor(schedule: Schedule, options: DrawOptions) {
    this.#schedule = schedule;
    this.#options = options;
    this.#trace = traceSchedule(schedule);
    let widest = 1;
    let tallest = 1;
    for (let node = 0; node < schedule.nodes; node++) {
      const strips = this.#strips(node);
      tallest = Math.max(tallest, strips.length);
      for (const strip of strips) widest = Math.max(widest, strip.chunks.length);
    }
    this.#box = widest <= 8 ? BOX : Math.max(7, Math.floor((8 * BOX) / widest));
    this.#stripWidth = widest * this.#box;
    this.#rowHeight = ROW + (tallest - 1) * (BOX + 4);
  }

  svg(): string {
    const { nodes, steps } = this.#schedule;
    const width = Math.max(this.#stripX(steps) + this.#stripWidth + 28, 48 + 6.9 * this.#summary().length);
    const bottom = TOP + nodes * this.#rowHeight;
    this.#header(width);
    for (let node = 0; node < nodes; node++) this.#row(node);
    for (let step = 0; step < steps; step++) {
      const middle = this.#stripX(step) + this.#stripWidth + ARROWS / 2;
      this.#text(middle, TOP - 16, `step ${step + 1}`, { size: 12, fill: FAINT, anchor: 'middle' });
    }
    for (let node = 0; node < nodes; node++) this.#arrowsOf(node);
    for (let step = -1; step < steps; step++) for (let node = 0; node < nodes; node++) this.#holds(node, step);
    const height = this.#legend(bottom + 18) + 20;
    return [
      `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif">`,
      `<title>${escaped(this.#title())}</title>`,
      `<rect width="${width}" height="${height}" fill="${PAPER}"/>`,
      ...this.#parts,
      '</svg>',
      '',
    ].join('\n');
  }

  /** What is shown of a node: its user buffers; in gathers and scatters also what passes through it; of a helper its scratch. */
  #strips(node: number): Strip[] {
    const { buffers, chunks, size, collective } = this.#schedule;
    const passing = collective === 'gather' || collective === 'scatter';
    const list: Strip[] = [];
    for (let id = 0; id < buffers.length; id++) {
      if (buffers[id].kind !== (node < size ? 'user' : 'scratch') && !passing) continue;
      const window = windowOf(this.#schedule, id, node);
      if (window.count > 0)
        list.push({ buffer: id, chunks: Array.from({ length: window.count }, (_, k) => (window.first + k) % chunks) });
    }
    return list;
  }

  #header(width: number): void {
    this.#text(24, 34, this.#title(), { size: 20, weight: 600 });
    this.#text(24, 55, this.#summary(), { size: 13, fill: '#52606d' });
    this.#parts.push(`<line x1="24" x2="${width - 24}" y1="66" y2="66" stroke="${LINE}"/>`);
  }

  #title(): string {
    const { collective, algorithm } = this.#schedule;
    return this.#options.title ?? `${collective} : ${algorithm}`;
  }

  #summary(): string {
    const { size, steps } = this.#schedule;
    const counts = `${size} ${size === 1 ? 'rank' : 'ranks'}, ${steps} ${steps === 1 ? 'step' : 'steps'}`;
    return this.#options.subtitle === undefined ? counts : `${this.#options.subtitle}  ·  ${counts}`;
  }

  #row(node: number): void {
    const y = this.#y(node);
    this.#parts.push(
      `<line x1="${LEFT - 14}" x2="${this.#stripX(this.#schedule.steps) + this.#stripWidth + 8}" y1="${y}" y2="${y}" stroke="${LINE}" stroke-width="1.5"/>`,
    );
    const { size } = this.#schedule;
    const label = node < size ? `rank ${node}` : `${this.#options.helperName ?? 'node'} ${node - size}`;
    this.#text(LEFT - 22, y + 4.5, label, { size: 13, anchor: 'end', weight: 500 });
  }

  #y(node: number): number {
    return TOP + node * this.#rowHeight + this.#rowHeight / 2;
  }

  /** Left edge of the boxes that show the state before `step` (0: the start). */
  #stripX(step: number): number {
    return LEFT + step * (this.#stripWidth + ARROWS);
  }

  #holds(node: number, step: number): void {
    const strips = this.#strips(node);
    const x = this.#stripX(step + 1);
    const total = strips.length * (BOX + 4) - 4;
    strips.forEach(({ buffer, chunks }, s) => {
      const y = this.#y(node) - total / 2 + s * (BOX + 4);
      const left = x + (this.#stripWidth - chunks.length * this.#box) / 2;
      chunks.forEach((chunk, k) => {
        const now = this.#trace.content(node, buffer, chunk, step);
        const before = step < 0 ? now : this.#trace.content(node, buffer, chunk, step - 1);
        this.#chunkBox(left + k * this.#box, y, now, !sameContent(now, before));
      });
    });
  }

  #chunkBox(x: number, y: number, content: Content | undefined, fresh: boolean): void {
    const width = this.#box - 2;
    this.#parts.push(`<rect x="${x + 1}" y="${y}" width="${width}" height="${BOX}" rx="3" fill="#f7f9fb" stroke="${LINE}"/>`);
    if (content === undefined) return;
    const { contributions, collective } = this.#schedule;
    const colour = this.#colour(content);
    const members = count(content.ranks);
    const reduces = this.#reduces();
    const share = reduces ? members / contributions : 1;
    const opacity = content.finished || !reduces ? 1 : 0.14 + 0.6 * share;
    this.#parts.push(
      `<rect x="${x + 1}" y="${y}" width="${width}" height="${BOX}" rx="3" fill="${colour}" opacity="${opacity.toFixed(2)}"/>`,
    );
    if (fresh)
      this.#parts.push(
        `<rect x="${x + 1}" y="${y}" width="${width}" height="${BOX}" rx="3" fill="none" stroke="${INK}" stroke-width="1.4"/>`,
      );
    if (this.#box < 14) return;
    const label = reduces
      ? content.finished
        ? '✓'
        : String(members)
      : collective === 'all-to-all'
        ? blockName(content)
        : String(content.chunk);
    this.#text(x + this.#box / 2, y + BOX / 2 + 4, label, {
      size: 11,
      anchor: 'middle',
      fill: share > 0.6 || content.finished ? PAPER : INK,
      weight: 600,
    });
  }

  #reduces(): boolean {
    return ['allreduce', 'sharded-allreduce', 'reduce', 'reduce-scatter', 'scan'].includes(this.#schedule.collective);
  }

  #colour(content: Content): string {
    return colourOf(
      this.#schedule.collective === 'all-to-all' || this.#schedule.collective === 'send-receive'
        ? first(content.ranks)
        : content.chunk,
    );
  }

  /** Arrows leave from the sender's row, so that each message is drawn once; reads are drawn from the owner to the reader. */
  #arrowsOf(node: number): void {
    const takes = this.#takes();
    const left = new Map<number, number>();
    for (const i of this.#schedule.program(node)) {
      const before = left.get(i.step) ?? 0;
      if (isPost(i.op) || i.op === 'write') left.set(i.step, before + 1);
      if (i.op === 'multicast') {
        const targets = takes.filter((take) => take.i.peer === node && take.i.channel === i.channel && take.i.step === i.step);
        for (const [k, target] of targets.entries()) {
          this.#arrow(node, target.node, i, isReduction(target.i.op), 'message', k === 0 ? before : undefined);
        }
      } else if (i.op === 'send') {
        const take = takes.find(
          (t) => t.node === i.peer && t.i.peer === node && t.i.channel === i.channel && t.i.step === i.step,
        );
        this.#arrow(node, i.peer, i, take !== undefined && isReduction(take.i.op), 'message', before);
      } else if (i.op === 'signal') this.#arrow(node, i.peer, i, false, 'signal', undefined);
      else if (i.op === 'read' || i.op === 'readReduce') this.#arrow(i.peer, node, i, isReduction(i.op), 'access', 0);
      else if (i.op === 'write') this.#arrow(node, i.peer, i, false, 'access', before);
    }
  }

  #takesFound: { node: number; i: Instruction }[] | undefined;

  #takes(): { node: number; i: Instruction }[] {
    if (this.#takesFound !== undefined) return this.#takesFound;
    const list: { node: number; i: Instruction }[] = [];
    for (let node = 0; node < this.#schedule.nodes; node++) {
      for (const i of this.#schedule.program(node))
        if (i.op === 'receive' || i.op === 'receiveReduce' || i.op === 'wait') list.push({ node, i });
    }
    this.#takesFound = list;
    return list;
  }

  /** @param departure how many left `from` in this step before it, so that labels keep apart; undefined: no label. */
  #arrow(
    from: number,
    to: number,
    i: Instruction,
    adds: boolean,
    kind: 'message' | 'access' | 'signal',
    departure: number | undefined,
  ): void {
    const x1 = this.#stripX(i.step) + this.#stripWidth + 5;
    const x2 = this.#stripX(i.step + 1) - 6;
    const [y1, y2] = [this.#y(from), this.#y(to)];
    // Where there is nothing but signals they are the subject, not the background.
    const bare = this.#schedule.buffers.length === 0;
    const colour = bare ? colourOf(from) : kind === 'signal' ? FAINT : this.#arrowColour(from, i);
    const bend = (x2 - x1) * 0.45;
    const width = bare ? 1.8 : kind === 'signal' ? 1.2 : Math.min(5, 1.8 + Math.log2(Math.max(1, i.count)) * 0.8);
    const dash = kind === 'access' ? ' stroke-dasharray="6 3"' : kind === 'signal' && !bare ? ' stroke-dasharray="2 3"' : '';
    const end = x2 - (adds ? 13 : 6);
    this.#parts.push(
      `<path d="M${x1} ${y1} C${x1 + bend} ${y1} ${end - bend} ${y2} ${end} ${y2}" fill="none" stroke="${colour}" stroke-width="${width.toFixed(1)}"${dash} opacity="0.9"/>`,
      `<path d="M${end + 6} ${y2} l-8 -4.5 v9 z" fill="${colour}"/>`,
    );
    if (adds)
      this.#parts.push(
        `<circle cx="${x2 - 1}" cy="${y2}" r="6.5" fill="${colour}"/><path d="M${x2 - 4.5} ${y2} h7 M${x2 - 1} ${y2 - 3.5} v7" stroke="${PAPER}" stroke-width="1.8"/>`,
      );
    if (departure === undefined) return;
    // The label stands where its arrow leaves: there arrows of different rows have not met yet.
    const [lx, ly] = curveAt(x1, y1, end, y2, bend, Math.min(0.5, 0.13 + 0.16 * departure));
    this.#label(lx, ly, this.#rangeName(from, i), colour, x1);
  }

  /** What travels. Scratch is packed in the same step, user buffers are as they were before it. */
  #travelling(from: number, i: Instruction): (Content | undefined)[] {
    const { buffers, chunks } = this.#schedule;
    const reads = i.op === 'read' || i.op === 'readReduce';
    const [id, at] = reads ? [i.otherBuffer, i.otherFirst] : [i.buffer, i.first];
    const when = buffers[id]?.kind === 'scratch' && from < this.#schedule.size ? i.step : i.step - 1;
    return Array.from({ length: i.count }, (_, k) => this.#trace.content(from, id, (at + k) % chunks, when));
  }

  #arrowColour(from: number, i: Instruction): string {
    const [content] = this.#travelling(from, i);
    return content === undefined ? colourOf(i.first) : this.#colour(content);
  }

  #rangeName(from: number, i: Instruction): string {
    const { chunks, collective, contributions } = this.#schedule;
    if (chunks === 1) return '';
    if (collective === 'all-to-all') {
      const blocks = this.#travelling(from, i).map((content) => (content === undefined ? '?' : blockName(content)));
      return blocks.length > 3 ? `${blocks.length} blocks` : blocks.join(' ');
    }
    if (collective === 'sharded-allreduce') return `${i.first % (chunks / contributions)}`;
    if (i.count === chunks) return 'all';
    return i.count === 1 ? `${i.first}` : `${i.first}–${(i.first + i.count - 1) % chunks}`;
  }

  #label(x: number, y: number, text: string, colour: string, minimum: number): void {
    if (text === '') return;
    const width = 8 + 6.6 * text.length;
    const left = Math.max(x - width / 2, minimum);
    this.#parts.push(
      `<rect x="${left.toFixed(1)}" y="${(y - 8).toFixed(1)}" width="${width.toFixed(1)}" height="16" rx="8" fill="${PAPER}" stroke="${colour}" stroke-width="1.2"/>`,
    );
    this.#text(left + width / 2, y + 4, text, { size: 11, anchor: 'middle', fill: colour, weight: 600 });
  }

  #legend(y: number): number {
    const items: [string, string][] = [];
    const has = (test: (i: Instruction) => boolean): boolean => {
      for (let node = 0; node < this.#schedule.nodes; node++)
        for (const i of this.#schedule.program(node)) if (test(i)) return true;
      return false;
    };
    if (this.#schedule.buffers.length > 0) {
      if (this.#reduces()) {
        items.push([
          `<rect width="20" height="18" y="-13" rx="3" fill="${PALETTE[0]}" opacity="0.4"/><text x="10" y="1" font-size="11" text-anchor="middle" fill="${INK}">2</text>`,
          'a chunk, and how many contributions it holds',
        ]);
        items.push([
          `<rect width="20" height="18" y="-13" rx="3" fill="${PALETTE[0]}"/><text x="10" y="1" font-size="11" text-anchor="middle" fill="${PAPER}">✓</text>`,
          'complete',
        ]);
      } else
        items.push([
          `<rect width="20" height="18" y="-13" rx="3" fill="${PALETTE[0]}"/>`,
          this.#schedule.collective === 'all-to-all' ? 'a block: from, to' : 'a chunk',
        ]);
      items.push([
        `<rect width="20" height="18" y="-13" rx="3" fill="none" stroke="${INK}" stroke-width="1.4"/>`,
        'new in this step',
      ]);
    }
    if (has(({ op }) => op === 'send' || op === 'multicast'))
      items.push([
        `<path d="M0 -4 h22 m0 0 l-7 -4 v8 z" stroke="${INK}" fill="${INK}" stroke-width="1.6"/>`,
        'message, with its chunks',
      ]);
    if (has(({ op }) => op === 'receiveReduce' || op === 'readReduce'))
      items.push([
        `<circle cx="11" cy="-4" r="6.5" fill="${INK}"/><path d="M7.500 -4 h7 M11 -7.500 v7" stroke="${PAPER}" stroke-width="1.8"/>`,
        'added on arrival',
      ]);
    if (has(({ op }) => op === 'read' || op === 'readReduce' || op === 'write'))
      items.push([
        `<path d="M0 -4 h22" stroke="${INK}" stroke-width="1.8" stroke-dasharray="6 3"/>`,
        "access to a peer's memory",
      ]);
    if (this.#schedule.buffers.length > 0 && has(({ op }) => op === 'signal'))
      items.push([`<path d="M0 -4 h22" stroke="${FAINT}" stroke-width="1.4" stroke-dasharray="2 3"/>`, 'signal']);
    let x = 24;
    const limit = Math.max(420, this.#stripX(this.#schedule.steps) + this.#stripWidth);
    let line = y + 8;
    for (const [mark, words] of items) {
      const width = 34 + words.length * 6.7;
      if (x > 24 && x + width > limit) {
        x = 24;
        line += 24;
      }
      this.#parts.push(`<g transform="translate(${x} ${line})">${mark}</g>`);
      this.#text(x + 28, line, words, { size: 12, fill: '#52606d' });
      x += width + 18;
    }
    return line;
  }

  #text(
    x: number,
    y: number,
    words: string,
    style: { size: number; fill?: string; anchor?: 'middle' | 'end'; weight?: number },
  ): void {
    const anchor = style.anchor === undefined ? '' : ` text-anchor="${style.anchor}"`;
    const weight = style.weight === undefined ? '' : ` font-weight="${style.weight}"`;
    this.#parts.push(
      `<text x="${round(x)}" y="${round(y)}" font-size="${style.size}" fill="${style.fill ?? INK}"${anchor}${weight}>${escaped(words)}</text>`,
    );
  }
}

function curveAt(x1: number, y1: number, x2: number, y2: number, bend: number, t: number): [number, number] {
  const u = 1 - t;
  const mix = (a: number, b: number, c: number, d: number): number =>
    u * u * u * a + 3 * u * u * t * b + 3 * u * t * t * c + t * t * t * d;
  return [mix(x1, x1 + bend, x2 - bend, x2), mix(y1, y1, y2, y2)];
}

function colourOf(chunk: number): string {
  return PALETTE[chunk % PALETTE.length];
}

function sameContent(a: Content | undefined, b: Content | undefined): boolean {
  return a?.chunk === b?.chunk && a?.ranks === b?.ranks && a?.finished === b?.finished;
}

/** A block of an all-to-all: from, to. */
function blockName({ ranks, chunk }: Content): string {
  return `${first(ranks)}${chunk}`;
}

function count(ranks: bigint): number {
  let members = 0;
  for (let rest = ranks; rest > 0n; rest &= rest - 1n) members++;
  return members;
}

function first(ranks: bigint): number {
  let rank = 0;
  while (rank < 4096 && ((ranks >> BigInt(rank)) & 1n) === 0n) rank++;
  return rank;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

function escaped(words: string): string {
  return words.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
