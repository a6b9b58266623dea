/**
 * From words on the command line to typed values, by the option specs of a command. Node's parseArgs splits the words; the checks
 * and the error messages are here. Anything unknown, missing or out of range is a UsageError that says what to write instead.
 */

import { parseArgs } from 'node:util';
import { nearest } from '../native/nearest.js';
import { type ListSpec, type NumberSpec, type OptionSpec, type OptionSpecs, type PositionalSpec, UsageError } from './command.js';
import { formatSize, parseSize } from './size.js';

/** Options that every command has. */
export const GLOBAL_OPTIONS = {
  json: { type: 'flag', summary: 'print one JSON document on stdout and nothing else there' },
  help: { type: 'flag', short: 'h', summary: 'show this help' },
} as const satisfies OptionSpecs;

export interface ParsedArguments {
  /** By option name; options that were not given have their default or are absent. */
  readonly values: Readonly<Record<string, unknown>>;
  readonly positionals: readonly string[];
  readonly json: boolean;
  readonly help: boolean;
}

function inRange(spec: { min?: number; max?: number }, value: number): boolean {
  return value >= (spec.min ?? Number.NEGATIVE_INFINITY) && value <= (spec.max ?? Number.POSITIVE_INFINITY);
}

/** The allowed range in words: "1 to 100", "at least 1", or ''. */
export function rangeWords(spec: { min?: number; max?: number }, format: (value: number) => string = String): string {
  if (spec.min !== undefined && spec.max !== undefined) return `${format(spec.min)} to ${format(spec.max)}`;
  if (spec.min !== undefined) return `at least ${format(spec.min)}`;
  return spec.max === undefined ? '' : `at most ${format(spec.max)}`;
}

function chooseWord(name: string, word: string, choices: readonly string[]): string {
  if (choices.includes(word)) return word;
  const near = nearest(word, choices);
  throw new UsageError(
    `--${name} cannot be '${word}'${near ? `; did you mean '${near}'?` : '.'} Choose from: ${choices.join(', ')}`,
  );
}

function parseNumber(name: string, spec: NumberSpec, text: string): number {
  const value = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : Number.NaN;
  const kind = spec.type === 'integer' ? 'a whole number' : 'a number';
  if (Number.isNaN(value) || (spec.type === 'integer' && !Number.isSafeInteger(value))) {
    throw new UsageError(`--${name} takes ${kind}: got '${text}'`);
  }
  if (!inRange(spec, value)) throw new UsageError(`--${name} must be ${rangeWords(spec)}: got ${text}`);
  return value;
}

/** The words of a list that are numbers. @throws UsageError for one that is none. */
export function numbersOf(name: string, words: readonly string[]): number[] {
  return words.map((word) => parseNumber(name, { type: 'number', summary: '', min: 0 }, word));
}

function parseWords(name: string, spec: ListSpec, texts: readonly string[]): string[] {
  const words = texts.flatMap((text) => text.split(',')).map((word) => word.trim());
  const given = words.filter((word) => word !== '');
  if (!spec.choices) return given;
  if (given.includes('all')) return [...spec.choices];
  return [...new Set(given.map((word) => chooseWord(name, word, spec.choices as readonly string[])))];
}

function parseValue(name: string, spec: Exclude<OptionSpec, { type: 'flag' }>, texts: readonly string[]): unknown {
  const text = texts[texts.length - 1];
  switch (spec.type) {
    case 'string':
      return text;
    case 'integer':
    case 'number':
      return parseNumber(name, spec, text);
    case 'size': {
      const bytes = parseSize(text);
      if (bytes === undefined) throw new UsageError(`--${name} takes bytes, as in 8, 4K, 1M or 1MiB: got '${text}'`);
      if (!inRange(spec, bytes)) throw new UsageError(`--${name} must be ${rangeWords(spec, formatSize)}: got ${text}`);
      return bytes;
    }
    case 'choice':
      return chooseWord(name, text, spec.choices);
    case 'list':
      return parseWords(name, spec, texts);
  }
}

function unknownOption(raw: string, specs: OptionSpecs): UsageError {
  const name = raw.replace(/^-+/, '');
  const known = Object.keys(specs).filter((key) => !specs[key].hidden);
  const near = nearest(name, known);
  return new UsageError(`there is no option ${raw}${near ? `; did you mean --${near}?` : ''}`);
}

function checkPositionals(given: readonly string[], specs: readonly PositionalSpec[]): void {
  const missing = specs.slice(given.length).find((spec) => spec.required);
  if (missing) throw new UsageError(`${missing.name} is missing: ${missing.summary}`);
  if (given.length > specs.length && !specs.at(-1)?.rest) {
    throw new UsageError(
      `'${given[specs.length]}' is one word too many${specs.length === 0 ? ': this command takes options only' : ''}`,
    );
  }
}

/** Parses the words after the command's name. Throws UsageError. With `--help` nothing is checked. */
export function parseArguments(
  args: readonly string[],
  commandSpecs: OptionSpecs,
  positionalSpecs: readonly PositionalSpec[] = [],
): ParsedArguments {
  const specs: OptionSpecs = { ...commandSpecs, ...GLOBAL_OPTIONS };
  const options: Record<string, { type: 'string' | 'boolean'; short?: string; multiple: boolean }> = {};
  for (const [name, spec] of Object.entries(specs)) {
    const type = spec.type === 'flag' ? 'boolean' : 'string';
    options[name] = spec.short ? { type, short: spec.short, multiple: true } : { type, multiple: true };
  }
  const { tokens } = parseArgs({ args: [...args], options, strict: false, tokens: true, allowPositionals: true });

  const texts = new Map<string, string[]>();
  const given = new Set<string>();
  const positionals: string[] = [];
  const restFrom = positionalSpecs.at(-1)?.rest ? positionalSpecs.length - 1 : Number.POSITIVE_INFINITY;
  const errors: UsageError[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional') {
      if (positionals.length === restFrom) {
        positionals.push(...args.slice(token.index));
        break;
      }
      positionals.push(token.value);
    } else if (token.kind === 'option') {
      const spec = specs[token.name];
      if (!spec) {
        errors.push(unknownOption(token.rawName, specs));
        continue;
      }
      given.add(token.name);
      if (spec.type === 'flag') {
        if (token.value !== undefined) errors.push(new UsageError(`${token.rawName} takes no value: got '${token.value}'`));
      } else if (token.value === undefined || token.value === '' || /^-[^\d.]/.test(token.value)) {
        errors.push(new UsageError(`${token.rawName} needs a value: ${spec.summary}`));
      } else {
        texts.set(token.name, [...(texts.get(token.name) ?? []), token.value]);
      }
    }
  }
  const json = given.has('json');
  if (given.has('help')) return { values: {}, positionals, json, help: true };
  if (errors.length > 0) throw errors[0];

  const values: Record<string, unknown> = {};
  for (const [name, spec] of Object.entries(commandSpecs)) {
    if (spec.type === 'flag') {
      values[name] = given.has(name);
      continue;
    }
    const words = texts.get(name);
    if (words) values[name] = parseValue(name, spec, words);
    else if (spec.required) throw new UsageError(`--${name} is missing: ${spec.summary}`);
    else if (spec.default !== undefined) values[name] = spec.default;
  }
  checkPositionals(positionals, positionalSpecs);
  return { values, positionals, json, help: false };
}
