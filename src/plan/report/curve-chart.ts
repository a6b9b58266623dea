/**
 * Curves on logarithmic axes: time over size, one line per algorithm, each named at its end so that nobody has to look up a legend.
 */
import { at, escapeXml, formatBytes, formatSeconds, seriesColour, svg } from './svg.js';

export interface Curve {
  readonly name: string;
  /** x and y, both positive. */
  readonly points: readonly (readonly [number, number])[];
  /** Drawn dashed. Default false. */
  readonly dashed?: boolean;
}

export interface ChartOptions {
  readonly label: string;
  readonly xTitle: string;
  readonly yTitle: string;
  readonly formatX?: (value: number) => string;
  readonly formatY?: (value: number) => string;
  /** Steps between grid lines on x: powers of this. Default 16. */
  readonly xBase?: number;
  /** Vertical mark. */
  readonly markX?: number;
}

/** An SVG of curves over one axis. */
export function drawCurves(curves: readonly Curve[], options: ChartOptions): string {
  const [width, height, left, right, top, bottom] = [960, 460, 74, 190, 18, 52];
  const xs = curves.flatMap((curve) => curve.points.map((point) => point[0]));
  const ys = curves.flatMap((curve) => curve.points.map((point) => point[1]));
  const [x0, x1] = [Math.min(...xs), Math.max(...xs)];
  const [y0, y1] = [10 ** Math.floor(Math.log10(Math.min(...ys))), 10 ** Math.ceil(Math.log10(Math.max(...ys)))];
  const px = (value: number): number => left + ((width - left - right) * Math.log(value / x0)) / Math.log(x1 / x0 || 2);
  const py = (value: number): number =>
    height - bottom - ((height - top - bottom) * Math.log(value / y0)) / Math.log(y1 / y0 || 10);
  const parts: string[] = [];
  const base = options.xBase ?? 16;
  for (let value = base ** Math.ceil(Math.log(x0) / Math.log(base) - 1e-9); value <= x1 * 1.001; value *= base) {
    parts.push(
      `<path d="M${at(px(value))} ${top}V${height - bottom}" stroke="var(--grid)"/><text x="${at(px(value))}" y="${height - bottom + 18}" text-anchor="middle">${escapeXml((options.formatX ?? formatBytes)(value))}</text>`,
    );
  }
  for (let value = y0; value <= y1 * 1.001; value *= 10) {
    parts.push(
      `<path d="M${left} ${at(py(value))}H${width - right}" stroke="var(--grid)"/><text x="${left - 9}" y="${at(py(value) + 4)}" text-anchor="end">${escapeXml((options.formatY ?? formatSeconds)(value))}</text>`,
    );
  }
  if (options.markX !== undefined && options.markX > x0 && options.markX < x1) {
    parts.push(`<path d="M${at(px(options.markX))} ${top}V${height - bottom}" stroke="var(--soft)" stroke-dasharray="3 4"/>`);
  }
  const ends = curves.map((curve) => py(curve.points[curve.points.length - 1][1]));
  const labels = spread(ends, 15, top + 6, height - bottom);
  curves.forEach((curve, i) => {
    const d = curve.points.map(([x, y], k) => `${k === 0 ? 'M' : 'L'}${at(px(x))} ${at(py(y))}`).join('');
    const dash = curve.dashed ? ' stroke-dasharray="6 5"' : '';
    const end = curve.points[curve.points.length - 1];
    parts.push(`<path d="${d}" fill="none" stroke="${seriesColour(i)}" stroke-width="2.2"${dash}/>`);
    parts.push(
      `<path d="M${at(px(end[0]) + 3)} ${at(ends[i])}L${width - right + 16} ${at(labels[i])}" stroke="${seriesColour(i)}" stroke-width="0.8" opacity="0.5"/>`,
    );
    parts.push(
      `<text x="${width - right + 20}" y="${at(labels[i] + 4)}" style="fill:${seriesColour(i)};font-weight:600">${escapeXml(curve.name)}</text>`,
    );
  });
  parts.push(
    `<text x="${(left + width - right) / 2}" y="${height - 10}" text-anchor="middle" class="strong">${escapeXml(options.xTitle)}</text>`,
  );
  parts.push(
    `<text transform="translate(15 ${(top + height - bottom) / 2}) rotate(-90)" text-anchor="middle" class="strong">${escapeXml(options.yTitle)}</text>`,
  );
  return svg(width, height, options.label, parts.join(''));
}

/** Moves labels apart so that they are at least `gap` from each other, and stay between the bounds. */
function spread(wanted: readonly number[], gap: number, low: number, high: number): number[] {
  const order = wanted.map((_, i) => i).sort((a, b) => wanted[a] - wanted[b]);
  const placed: number[] = [];
  for (const [k, i] of order.entries()) placed[i] = Math.max(wanted[i], k === 0 ? low : placed[order[k - 1]] + gap);
  const overflow = Math.max(0, placed[order[order.length - 1]] - high);
  if (overflow > 0) {
    let limit = high;
    for (const i of [...order].reverse()) {
      placed[i] = Math.min(placed[i], limit);
      limit = placed[i] - gap;
    }
  }
  return placed;
}
