/**
 * A network drawn from the places its builder gave to the vertices. Links are coloured by role, or by load when there is one: the heat shows where a
 * collective really runs.
 */
import { type LinkRole, linkRoles, type Network } from '../topology/network.js';
import { at, heatColour, svg } from './svg.js';

export interface DrawingOptions {
  /** Bytes per channel. Default: none, links are coloured by role. */
  readonly channelBytes?: Float64Array;
  /** Default 520. */
  readonly size?: number;
}

const roleColours: Readonly<Record<LinkRole, string>> = {
  host: 'var(--series-9)',
  up: 'var(--series-0)',
  core: 'var(--series-3)',
  mesh: 'var(--series-0)',
  wrap: 'var(--series-1)',
  local: 'var(--series-2)',
  global: 'var(--series-4)',
  line: 'var(--series-1)',
};

const roleWords: Readonly<Record<LinkRole, string>> = {
  host: 'endpoint',
  up: 'up',
  core: 'core',
  mesh: 'neighbour',
  wrap: 'wrap-around',
  local: 'local',
  global: 'global',
  line: 'line',
};

/** An SVG of a network: switches, endpoints and links. */
export function drawNetwork(network: Network, options: DrawingOptions = {}): string {
  const width = options.size ?? 520;
  const flat = isFlat(network);
  const height = flat ? Math.round(width * 0.62) : width;
  const margin = 18;
  const x = (v: number): number => margin + network.x[v] * (width - 2 * margin);
  const y = (v: number): number => margin + network.y[v] * (height - 2 * margin - 26);
  const crowd = network.links;
  const thin = crowd > 1500 ? 0.5 : crowd > 300 ? 0.8 : 1.3;

  let busiest = 0;
  const load = (link: number): number =>
    Math.max(options.channelBytes?.[2 * link] ?? 0, options.channelBytes?.[2 * link + 1] ?? 0);
  for (let link = 0; link < network.links; link++) busiest = Math.max(busiest, load(link));
  const order = Array.from({ length: network.links }, (_, link) => link);
  if (busiest > 0) order.sort((a, b) => load(a) - load(b));
  else order.sort((a, b) => rank(network, a) - rank(network, b));

  const lines: string[] = [];
  const used = new Set<LinkRole>();
  for (const link of order) {
    const role = linkRoles[network.role[link]];
    used.add(role);
    const [a, b] = [network.tail[2 * link], network.head[2 * link]];
    const share = busiest > 0 ? load(link) / busiest : 0;
    const colour = busiest > 0 ? heatColour(share) : roleColours[role];
    const stroke = busiest > 0 ? thin * (0.6 + 2.6 * share) : thin;
    const opacity = busiest > 0 ? 0.35 + 0.65 * share : crowd > 1500 ? 0.35 : 0.75;
    const straight = role !== 'wrap' && !(role === 'line' && isAligned(x(a), y(a), x(b), y(b)));
    const path = !straight ? bow(x(a), y(a), x(b), y(b)) : `M${at(x(a))} ${at(y(a))}L${at(x(b))} ${at(y(b))}`;
    lines.push(`<path d="${path}" fill="none" stroke="${colour}" stroke-width="${at(stroke)}" opacity="${at(opacity)}"/>`);
  }
  const dot = network.vertices > 1200 ? 1.1 : network.vertices > 250 ? 1.9 : 3.4;
  const marks: string[] = [];
  for (let v = 0; v < network.vertices; v++) {
    if (v < network.endpoints) marks.push(`<circle cx="${at(x(v))}" cy="${at(y(v))}" r="${dot}" fill="var(--node)"/>`);
    else {
      const half = dot * 1.5;
      marks.push(
        `<rect x="${at(x(v) - half)}" y="${at(y(v) - half)}" width="${at(2 * half)}" height="${at(2 * half)}" rx="1.2" fill="var(--switch)"/>`,
      );
    }
  }
  const legend = busiest > 0 ? heatLegend(width, height) : roleLegend(used, height);
  return svg(width, height, network.name, lines.join('') + marks.join('') + legend);
}

function rank(network: Network, link: number): number {
  return linkRoles[network.role[link]] === 'host' ? 0 : linkRoles[network.role[link]] === 'global' ? 2 : 1;
}

function isFlat(network: Network): boolean {
  let [low, high] = [1, 0];
  for (let v = 0; v < network.endpoints; v++) {
    low = Math.min(low, network.y[v]);
    high = Math.max(high, network.y[v]);
  }
  return high - low < 0.1;
}

/** Links along a row or column would hide each other. */
function isAligned(x1: number, y1: number, x2: number, y2: number): boolean {
  return Math.abs(x1 - x2) < 0.5 || Math.abs(y1 - y2) < 0.5;
}

function bow(x1: number, y1: number, x2: number, y2: number): string {
  const [dx, dy] = [x2 - x1, y2 - y1];
  const length = Math.hypot(dx, dy) || 1;
  const bend = Math.min(26, length * 0.12);
  return `M${at(x1)} ${at(y1)}Q${at((x1 + x2) / 2 - (dy / length) * bend)} ${at((y1 + y2) / 2 + (dx / length) * bend)} ${at(x2)} ${at(y2)}`;
}

function roleLegend(used: ReadonlySet<LinkRole>, height: number): string {
  let left = 18;
  return linkRoles
    .filter((role) => used.has(role))
    .map((role) => {
      const word = roleWords[role];
      const item = `<path d="M${left} ${height - 11}h18" stroke="${roleColours[role]}" stroke-width="2.4"/><text x="${left + 23}" y="${height - 7}">${word}</text>`;
      left += 38 + word.length * 7;
      return item;
    })
    .join('');
}

function heatLegend(width: number, height: number): string {
  const stops = [0, 0.25, 0.5, 0.75, 1].map((s) => `<stop offset="${s}" stop-color="${heatColour(s)}"/>`).join('');
  return `<defs><linearGradient id="heat">${stops}</linearGradient></defs><rect x="70" y="${height - 16}" width="${width - 190}" height="7" rx="3.5" fill="url(#heat)"/><text x="18" y="${height - 8}">idle</text><text x="${width - 110}" y="${height - 8}">busiest link</text>`;
}
