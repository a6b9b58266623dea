/** Tables for a terminal: boxes drawn with line characters, columns as wide as their content. */

import { columns, type Style } from './style.js';

export interface Column {
  readonly title: string;
  /** Default: left. */
  readonly align?: 'left' | 'right';
}

function pad(text: string, width: number, align: 'left' | 'right' = 'left'): string {
  const space = ' '.repeat(Math.max(0, width - columns(text)));
  return align === 'right' ? space + text : text + space;
}

/**
 * A table with a frame. A row that is a string is a section line across all columns.
 *
 * ```
 * ┌────────┬──────┐
 * │ who    │ time │
 * ├────────┼──────┤
 * │ ...    │      │
 * └────────┴──────┘
 * ```
 */
export function boxTable(head: readonly Column[], rows: readonly (readonly string[] | string)[], style: Style): string {
  const widths = head.map((column, i) =>
    Math.max(columns(column.title), ...rows.map((row) => (typeof row === 'string' ? 0 : columns(row[i] ?? '')))),
  );
  const inner = widths.reduce((sum, width) => sum + width + 2, 0) + widths.length - 1;
  const widest = Math.max(0, ...rows.map((row) => (typeof row === 'string' ? columns(row) + 2 : 0)));
  if (widest > inner) widths[widths.length - 1] += widest - inner;
  const total = Math.max(inner, widest);
  const rule = (left: string, middle: string, right: string) =>
    style.dim(left + widths.map((width) => '─'.repeat(width + 2)).join(middle) + right);
  const bar = style.dim('│');
  const line = (cells: readonly string[]) =>
    `${bar}${head.map((column, i) => ` ${pad(cells[i] ?? '', widths[i], column.align)} `).join(bar)}${bar}`;
  return [
    rule('┌', '┬', '┐'),
    line(head.map((column) => style.bold(column.title))),
    rule('├', '┼', '┤'),
    ...rows.map((row) => (typeof row === 'string' ? `${bar} ${pad(row, total - 2)} ${bar}` : line(row))),
    rule('└', '┴', '┘'),
  ].join('\n');
}

/** Columns without a frame, two spaces apart. */
export function plainTable(head: readonly Column[], rows: readonly (readonly string[])[], style: Style): string {
  const widths = head.map((column, i) => Math.max(columns(column.title), ...rows.map((row) => columns(row[i] ?? ''))));
  const line = (cells: readonly string[]) =>
    head
      .map((column, i) => pad(cells[i] ?? '', widths[i], column.align))
      .join('  ')
      .trimEnd();
  return [line(head.map((column) => style.bold(column.title))), ...rows.map(line)].join('\n');
}
