/** Small pieces that all drawings share: escaping, numbers, colours. Colours are CSS variables, so that one drawing serves the light and the dark page. */

/** Text inside XML. */
export function escapeXml(text: string): string {
  return text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}

/** A coordinate with at most two decimals. */
export function at(value: number): string {
  return String(Math.round(value * 100) / 100);
}

/** Series colours, in order of use. */
export function seriesColour(index: number): string {
  return `var(--series-${index % 10})`;
}

/** An SVG element that scales with the page. */
export function svg(width: number, height: number, label: string, body: string): string {
  return `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${escapeXml(label)}" xmlns="http://www.w3.org/2000/svg">${body}</svg>`;
}

/** Heat from idle (0) to the busiest link (1). */
export function heatColour(share: number): string {
  const stops = [
    [0, 203, 213, 225],
    [0.25, 134, 182, 246],
    [0.5, 250, 204, 21],
    [0.75, 249, 115, 22],
    [1, 190, 18, 60],
  ];
  const x = Math.min(1, Math.max(0, share));
  const above = stops.findIndex((stop) => stop[0] >= x);
  const [b, a] = [stops[Math.max(1, above)], stops[Math.max(0, above - 1)]];
  const t = (x - a[0]) / (b[0] - a[0] || 1);
  return `rgb(${[1, 2, 3].map((i) => Math.round(a[i] + (b[i] - a[i]) * t)).join(',')})`;
}

/** Seconds for people. */
export function formatSeconds(seconds: number): string {
  if (seconds === 0) return '0';
  if (!Number.isFinite(seconds)) return String(seconds);
  const [scale, unit] = seconds < 1e-6 ? [1e9, 'ns'] : seconds < 1e-3 ? [1e6, 'µs'] : seconds < 1 ? [1e3, 'ms'] : [1, 's'];
  return `${Number((seconds * scale).toPrecision(3))} ${unit}`;
}

/** Bytes for people, powers of two. */
export function formatBytes(bytes: number): string {
  let [value, unit] = [bytes, 0];
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    unit++;
  }
  return `${Number(value.toPrecision(3))} ${['B', 'KiB', 'MiB', 'GiB', 'TiB'][unit]}`;
}
