/** Stacked bars: what the time or the money of each candidate consists of. */
import { at, escapeXml, seriesColour, svg } from './svg.js';

export interface Bar {
  readonly name: string;
  /** One value per part, in the order of `parts`. */
  readonly values: readonly number[];
  /** Text behind the bar. */
  readonly note: string;
}

/** An SVG of horizontal bars, each made of the parts. */
export function drawBars(label: string, parts: readonly string[], bars: readonly Bar[]): string {
  const [width, left, right, row, top] = [960, 210, 150, 30, 38];
  const height = top + bars.length * row + 10;
  const longest = Math.max(...bars.map((bar) => bar.values.reduce((sum, value) => sum + value, 0)));
  const scale = (width - left - right) / (longest || 1);
  const body: string[] = [];
  let legend = left;
  for (const [i, part] of parts.entries()) {
    body.push(
      `<rect x="${legend}" y="9" width="11" height="11" rx="2" fill="${seriesColour(i)}"/><text x="${legend + 16}" y="19">${escapeXml(part)}</text>`,
    );
    legend += 34 + part.length * 6.6;
  }
  for (const [k, bar] of bars.entries()) {
    const y = top + k * row;
    let x = left;
    body.push(
      `<text x="${left - 10}" y="${y + 16}" text-anchor="end"${k === 0 ? ' class="strong"' : ''}>${escapeXml(bar.name)}</text>`,
    );
    for (const [i, value] of bar.values.entries()) {
      const w = value * scale;
      if (w > 0.2)
        body.push(
          `<rect x="${at(x)}" y="${y + 2}" width="${at(Math.max(0.4, w - 0.8))}" height="${row - 10}" rx="2" fill="${seriesColour(i)}"/>`,
        );
      x += w;
    }
    body.push(`<text x="${at(x + 8)}" y="${y + 16}"${k === 0 ? ' class="strong"' : ''}>${escapeXml(bar.note)}</text>`);
  }
  return svg(width, height, label, body.join(''));
}
