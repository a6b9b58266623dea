/** A pipeline schedule as a timeline: a row per stage, a block per action, the white between them is the bubble. */
import { at, escapeXml, svg } from './svg.js';

export interface TimelineBlock {
  readonly stage: number;
  /** F forward, B backward (of inputs), W backward of weights. */
  readonly kind: 'F' | 'B' | 'W';
  readonly microBatch: number;
  /** Model part, for interleaved schedules. */
  readonly part: number;
  readonly start: number;
  readonly end: number;
}

const fills = { F: 'var(--series-0)', B: 'var(--series-2)', W: 'var(--series-6)' } as const;

export function drawTimeline(label: string, stages: number, blocks: readonly TimelineBlock[], note: string): string {
  const [width, left, row, top] = [960, 62, 26, 30];
  const height = top + stages * row + 8;
  const end = Math.max(...blocks.map((block) => block.end));
  const scale = (width - left - 10) / end;
  const body = [
    `<text x="${left}" y="18" class="strong">${escapeXml(label)}</text><text x="${width - 10}" y="18" text-anchor="end">${escapeXml(note)}</text>`,
  ];
  for (let stage = 0; stage < stages; stage++) {
    const y = top + stage * row;
    body.push(
      `<rect x="${left}" y="${y}" width="${width - left - 10}" height="${row - 5}" fill="var(--grid)" rx="2"/><text x="${left - 8}" y="${y + 15}" text-anchor="end">stage ${stage}</text>`,
    );
  }
  for (const block of blocks) {
    const [x, w, y] = [left + block.start * scale, (block.end - block.start) * scale, top + block.stage * row];
    const opacity = block.part % 2 === 0 ? 1 : 0.62;
    body.push(
      `<rect x="${at(x + 0.4)}" y="${y}" width="${at(Math.max(0.5, w - 0.8))}" height="${row - 5}" rx="1.5" fill="${fills[block.kind]}" opacity="${opacity}"/>`,
    );
    if (w > 11)
      body.push(
        `<text x="${at(x + w / 2)}" y="${y + 15}" text-anchor="middle" style="fill:#fff;font-size:10.5px">${block.microBatch}</text>`,
      );
  }
  return svg(width, height, label, body.join(''));
}
