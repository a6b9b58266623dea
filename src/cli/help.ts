/** The help of a command or a group of commands, made from the same data that the parser uses. */

import { GLOBAL_OPTIONS, rangeWords } from './arguments.js';
import {
  type AnyCommand,
  type Example,
  isGroup,
  type OptionSpec,
  type OptionSpecs,
  type PositionalSpec,
  visibleCommands,
} from './command.js';
import { formatSize } from './size.js';
import { columns, type Style } from './style.js';

const MAX_WIDTH = 110;

/**
 * Breaks text at spaces so that no line is longer than `width`. Where the source breaks a line means nothing; an empty line ends a
 * paragraph, and lines that start with a space are kept as they are.
 */
export function wrap(text: string, width: number, indent = ''): string {
  const lines: string[] = [];
  for (const paragraph of text.replace(/(?<=\S)\n(?=\S)/g, ' ').split('\n')) {
    if (/^\s/.test(paragraph)) {
      lines.push(indent + paragraph);
      continue;
    }
    let line = '';
    for (const word of paragraph.split(' ')) {
      if (line !== '' && columns(indent) + columns(line) + 1 + columns(word) > width) {
        lines.push(indent + line);
        line = word;
      } else {
        line = line === '' ? word : `${line} ${word}`;
      }
    }
    lines.push(line === '' ? '' : indent + line);
  }
  return lines.join('\n');
}

/** Rows of two columns; the second is wrapped beside the first. */
function twoColumns(rows: readonly (readonly [left: string, right: string])[], width: number): string {
  const leftWidth = Math.min(30, Math.max(...rows.map(([left]) => columns(left))));
  return rows
    .map(([left, right]) => {
      const pad = ' '.repeat(leftWidth + 4);
      const body = wrap(right, width, pad).slice(pad.length);
      return columns(left) > leftWidth
        ? `  ${left}\n${pad}${body}`
        : `  ${left}${' '.repeat(leftWidth - columns(left))}  ${body}`;
    })
    .join('\n');
}

function placeholder(name: string, spec: OptionSpec): string {
  if (spec.type === 'flag') return '';
  const value = 'value' in spec ? spec.value : undefined;
  if (value) return ` ${value}`;
  if (spec.type === 'list') return ` ${name.toUpperCase()},...`;
  return ` ${spec.type === 'integer' || spec.type === 'number' ? 'N' : spec.type === 'size' ? 'SIZE' : name.toUpperCase()}`;
}

function optionDetails(spec: OptionSpec): string {
  const parts: string[] = [];
  if ((spec.type === 'choice' || spec.type === 'list') && spec.choices) parts.push(spec.choices.join(' | '));
  if (spec.type === 'integer' || spec.type === 'number') parts.push(rangeWords(spec));
  if (spec.type === 'size') parts.push(rangeWords(spec, formatSize));
  if (spec.type !== 'flag' && spec.default !== undefined && String(spec.default) !== '') {
    parts.push(`default: ${spec.type === 'size' ? formatSize(spec.default as number) : String(spec.default)}`);
  }
  if (spec.required) parts.push('required');
  const words = parts.filter((part) => part !== '').join('; ');
  return words ? `${spec.summary} (${words})` : spec.summary;
}

function optionRows(specs: OptionSpecs, style: Style): [string, string][] {
  return Object.entries(specs)
    .filter(([, spec]) => !spec.hidden)
    .map(([name, spec]) => {
      const short = spec.short ? `-${spec.short}, ` : '';
      return [`${style.cyan(`${short}--${name}`)}${style.dim(placeholder(name, spec))}`, optionDetails(spec)];
    });
}

function positionalWord(spec: PositionalSpec): string {
  const word = spec.rest ? `${spec.name}...` : spec.name;
  return spec.required ? word : `[${word}]`;
}

function exampleLines(examples: readonly Example[], style: Style, width: number): string {
  return examples.map(({ line, note }) => `  ${style.cyan(line)}\n${wrap(note, width, '      ')}`).join('\n');
}

/** @param path the words that lead to the command: ['verbena', 'bench', 'verbs']. */
export function helpText(command: AnyCommand, path: readonly string[], style: Style, terminalWidth = 100): string {
  const width = Math.min(terminalWidth, MAX_WIDTH);
  const title = path.join(' ');
  const sections: string[] = [`${style.bold(title)}: ${command.summary}`];
  const heading = (text: string) => style.bold(text);
  if (isGroup(command)) {
    sections.push(`${heading('Usage')}\n  ${title} COMMAND [options]`);
    if (command.description) sections.push(wrap(command.description, width));
    const rows = visibleCommands(command).map((child): [string, string] => [style.cyan(child.name), child.summary]);
    sections.push(`${heading('Commands')}\n${twoColumns(rows, width)}`);
    sections.push(`${heading('Every command')}\n${twoColumns(optionRows(GLOBAL_OPTIONS, style), width)}`);
  } else {
    const positionals = command.positionals ?? [];
    const words = [title, '[options]', ...positionals.map(positionalWord)];
    sections.push(`${heading('Usage')}\n  ${words.join(' ')}`);
    if (command.description) sections.push(wrap(command.description, width));
    if (positionals.length > 0) {
      const rows = positionals.map((spec): [string, string] => [style.cyan(spec.name), spec.summary]);
      sections.push(`${heading('Arguments')}\n${twoColumns(rows, width)}`);
    }
    const rows = optionRows({ ...command.options, ...GLOBAL_OPTIONS }, style);
    sections.push(`${heading('Options')}\n${twoColumns(rows, width)}`);
  }
  if (command.examples.length > 0) {
    sections.push(`${heading('Examples')}\n${exampleLines(command.examples, style, width)}`);
  }
  return sections.join('\n\n');
}
