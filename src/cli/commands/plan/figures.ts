/** Words and numbers in which plan commands speak. */

import type { TopologyFigures, TopologyParameters } from '../../../plan/topology/topology.js';

export function grouped(value: number): string {
  const rounded = Math.abs(value) >= 100 || Number.isInteger(value) ? Math.round(value) : Number(value.toPrecision(3));
  return rounded.toLocaleString('en-US');
}

/** Money with three digits: 25.3 M, 14.3 k. */
export function money(value: number): string {
  if (Math.abs(value) >= 1e6) return `${Number((value / 1e6).toPrecision(3)).toLocaleString('en-US')} M`;
  return Math.abs(value) >= 1e4 ? `${Number((value / 1e3).toPrecision(3))} k` : grouped(value);
}

export function percent(share: number, digits = 1): string {
  return `${(share * 100).toFixed(digits)} %`;
}

export function rate(bytesPerSecond: number): string {
  if (bytesPerSecond >= 1e13) return `${grouped(bytesPerSecond / 1e12)} TB/s`;
  return `${Number((bytesPerSecond / 1e9).toPrecision(3))} GB/s`;
}

export function parameterText(parameters: TopologyParameters): string {
  return Object.entries(parameters)
    .map(([name, value]) => `${name}=${typeof value === 'number' ? value : value.join('x')}`)
    .join(' ');
}

export function bisectionText(figures: TopologyFigures): string {
  const { links, exactness, relative } = figures.bisection;
  const sign = exactness === 'exact' ? '' : exactness === 'upperBound' ? 'at most ' : 'about ';
  return `${sign}${grouped(links)} links, ${percent(relative, relative < 0.01 ? 2 : 0)} of full`;
}

export function blockingText(figures: TopologyFigures): string {
  return figures.blocking.nonBlocking ? 'non-blocking' : `blocking ${Number(figures.blocking.ratio.toPrecision(3))} : 1`;
}
