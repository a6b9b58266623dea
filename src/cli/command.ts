/**
 * What a command of `verbena` is: plain data that the parser, the help and the runner share, and one function.
 *
 * A command never writes to stdout by itself. It returns an `Outcome`: the document that `--json` prints and the text that a person
 * reads. So "one JSON document on stdout and nothing else there" holds for every command without anybody remembering it. What happens
 * meanwhile goes to `context.progress` (stderr), and a live display to `context.screen`, which is silent under `--json`.
 *
 * ```ts
 * export const greet = defineCommand({
 *   name: 'greet',
 *   summary: 'says hello',
 *   options: { times: { type: 'integer', summary: 'how often', default: 1, min: 1 } },
 *   examples: [{ line: 'verbena greet --times 3', note: 'Says it three times.' }],
 *   async run({ options }) {
 *     return { document: { times: options.times }, text: 'hello\n'.repeat(options.times) };   // options.times is a number
 *   },
 * });
 * ```
 */

import type { Style } from './style.js';

interface OptionBase {
  /** One line for the help. Unit and meaning; default and range are added by themselves. */
  readonly summary: string;
  /** One letter: `-n`. */
  readonly short?: string;
  /** The command refuses to run without it. */
  readonly required?: boolean;
  /** Left out of the help. */
  readonly hidden?: boolean;
}

/** True when given. */
export interface FlagSpec extends OptionBase {
  readonly type: 'flag';
}

/** Any text. */
export interface StringSpec extends OptionBase {
  readonly type: 'string';
  readonly default?: string;
  /** Placeholder in the help, capitals. Default: the option's name. */
  readonly value?: string;
}

/** A whole number, or any number; the range is inclusive. */
export interface NumberSpec extends OptionBase {
  readonly type: 'integer' | 'number';
  readonly default?: number;
  readonly min?: number;
  readonly max?: number;
  readonly value?: string;
}

/** Bytes: 8, 4K, 1M, 1MiB, 2GB. A bare K, M, G is 2^10, 2^20, 2^30, as is KiB, MiB, GiB; KB, MB, GB are powers of ten. */
export interface SizeSpec extends OptionBase {
  readonly type: 'size';
  readonly default?: number;
  readonly min?: number;
  readonly max?: number;
}

/** One of a few words. */
export interface ChoiceSpec extends OptionBase {
  readonly type: 'choice';
  readonly choices: readonly string[];
  readonly default?: string;
}

/** Words separated by commas; giving the option again adds to it. */
export interface ListSpec extends OptionBase {
  readonly type: 'list';
  /** Words that are allowed; 'all' then stands for all of them. Default: any. */
  readonly choices?: readonly string[];
  readonly default?: readonly string[];
  readonly value?: string;
}

export type OptionSpec = FlagSpec | StringSpec | NumberSpec | SizeSpec | ChoiceSpec | ListSpec;
/** Options by their long name, kebab-case. `json` and `help` exist for every command and are not listed. */
export type OptionSpecs = Readonly<Record<string, OptionSpec>>;

type RawValue<S extends OptionSpec> = S extends FlagSpec
  ? boolean
  : S extends NumberSpec | SizeSpec
    ? number
    : S extends ChoiceSpec
      ? S['choices'][number]
      : S extends ListSpec
        ? string[]
        : string;

/** The parsed value of an option: undefined is possible only where there is neither a default nor a duty to give it. */
export type OptionValue<S extends OptionSpec> = S extends FlagSpec
  ? boolean
  : S extends { default: unknown } | { required: true }
    ? RawValue<S>
    : RawValue<S> | undefined;

export type OptionValues<O extends OptionSpecs> = { [K in keyof O]: OptionValue<O[K]> };

/** An argument without a name. */
export interface PositionalSpec {
  readonly name: string;
  readonly summary: string;
  readonly required?: boolean;
  /** Takes everything from here on as it is, options included: the last positional of `run script.ts --its-own-option`. */
  readonly rest?: boolean;
}

export interface Example {
  /** The whole line as typed. */
  readonly line: string;
  /** What it shows. */
  readonly note: string;
}

/** What a command is given. */
export interface Context<O extends OptionSpecs = OptionSpecs> {
  readonly options: OptionValues<O>;
  readonly positionals: readonly string[];
  readonly json: boolean;
  /** Colours for stdout: all plain where stdout is no terminal or NO_COLOR is set. */
  readonly style: Style;
  /** Columns of the terminal, or 100. */
  readonly width: number;
  /** A line for whoever waits: to stderr. */
  progress(line: string): void;
  /** Live text on stdout, as it is. Goes nowhere under `--json`. */
  screen(text: string): void;
  /** True when stdout is a terminal and not `--json`: a display may redraw itself. */
  readonly interactive: boolean;
  /** Aborted by Ctrl-C and SIGTERM. A command that starts processes ends them then. */
  readonly signal: AbortSignal;
}

/** What a command has to say. */
export interface Outcome {
  /** What `--json` prints. */
  readonly document: unknown;
  /** What a person reads; printed with a newline at the end, '' not at all. Called only when needed if it is a function. */
  readonly text: string | (() => string);
  /** 0: done; 1: it ran and the answer is a failure; others: that of a program it ran. Default 0. */
  readonly exitCode?: number;
}

export interface Command<O extends OptionSpecs = OptionSpecs> {
  readonly name: string;
  /** One line, no capital, no full stop. */
  readonly summary: string;
  /** Paragraphs for the help: what it does, what the reader should know. */
  readonly description?: string;
  readonly positionals?: readonly PositionalSpec[];
  readonly options: O;
  readonly examples: readonly Example[];
  /** Left out of the help. */
  readonly hidden?: boolean;
  /** Only computes: there is nothing to end or to tidy, so Ctrl-C ends the process at once, in the middle of a computation too. */
  readonly pure?: boolean;
  run(context: Context<O>): Promise<Outcome>;
}

/** Commands under one word: `verbena bench verbs`. */
export interface CommandGroup {
  readonly name: string;
  readonly summary: string;
  readonly description?: string;
  readonly commands: readonly AnyCommand[];
  readonly examples: readonly Example[];
}

// biome-ignore lint/suspicious/noExplicitAny: options are contravariant in `run`; the parser makes them from the same spec
export type AnyCommand = Command<any> | CommandGroup;

/** Keeps the literal types of the options, so that `context.options` is typed. */
export function defineCommand<const O extends OptionSpecs>(command: Command<O>): Command<O> {
  return command;
}

export function isGroup(command: AnyCommand): command is CommandGroup {
  return 'commands' in command;
}

/** The commands of a group that people are told of. */
export function visibleCommands(group: CommandGroup): AnyCommand[] {
  return group.commands.filter((command) => isGroup(command) || !command.hidden);
}

/** The user asked for something that does not exist or lacks something: exit code 2, and a hint to the help. */
export class UsageError extends Error {
  readonly code = 'USAGE';

  constructor(message: string) {
    super(message);
    this.name = 'UsageError';
  }
}
