/**
 * The program: finds the command, parses its words, runs it, prints what it returns.
 *
 * Exit codes: 0 done; 1 it failed, or the answer is a failure; 2 it was called wrongly; 130 and 143 it was interrupted. Under `--json` stdout holds one JSON document in
 * every case; a failure is `{ "error": { "code", "message" } }`.
 */

import { setMaxListeners } from 'node:events';
import { readFileSync } from 'node:fs';
import { nearest } from '../native/nearest.js';
import { PlanRefusal } from '../plan/refusal.js';
import { parseArguments } from './arguments.js';
import {
  type AnyCommand,
  type Command,
  type CommandGroup,
  type Context,
  isGroup,
  UsageError,
  visibleCommands,
} from './command.js';
import { helpText } from './help.js';
import { loadCommand, loadRoot } from './registry.js';
import { type Style, styleFor } from './style.js';
import { systemErrorWords } from './system-error.js';

/** As a shell has them: 128 and the number of the signal. */
const EXIT_CODES: Readonly<Record<string, number>> = { SIGINT: 130, SIGTERM: 143 };

/** Where the program writes; a test gives its own. */
export interface Streams {
  readonly stdout: { write(text: string): unknown; isTTY?: boolean; columns?: number };
  readonly stderr: { write(text: string): unknown; isTTY?: boolean };
}

/** The version of the package. */
export function version(): string {
  const manifest = new URL('../../../package.json', import.meta.url);
  return (JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }).version;
}

class Runner {
  readonly #streams: Streams;
  readonly #json: boolean;
  readonly #style: Style;
  /** The words that led to where we are: what to show the help of. */
  #path: readonly string[] = ['verbena'];

  constructor(args: readonly string[], streams: Streams) {
    this.#streams = streams;
    this.#json = args.includes('--json');
    this.#style = styleFor(streams.stdout);
  }

  get #width(): number {
    return this.#streams.stdout.columns ?? 100;
  }

  #print(text: string): void {
    if (text === '') return;
    this.#streams.stdout.write(text.endsWith('\n') ? text : `${text}\n`);
  }

  #printJson(document: unknown): void {
    this.#print(JSON.stringify(document, undefined, 2));
  }

  #printHelp(command: AnyCommand, path: readonly string[]): number {
    const text = helpText(command, path, this.#json ? styleFor({}, {}) : this.#style, this.#width);
    if (this.#json) this.#printJson({ help: text });
    else this.#print(text);
    return 0;
  }

  /** Tells about an error in the form that was asked for. */
  fail(error: unknown): number {
    const usage = error instanceof UsageError || error instanceof PlanRefusal;
    const message = systemErrorWords(error) ?? (error instanceof Error ? error.message : String(error));
    const code = (error as { code?: unknown } | null)?.code;
    if (this.#json) this.#printJson({ error: { code: typeof code === 'string' ? code : 'FAILED', message } });
    const errorStyle = styleFor(this.#streams.stderr);
    this.#streams.stderr.write(`${errorStyle.red('verbena:')} ${message}\n`);
    if (usage) this.#streams.stderr.write(`See ${this.#path.join(' ')} --help\n`);
    else if (process.env['VERBENA_DEBUG'] && error instanceof Error) this.#streams.stderr.write(`${error.stack}\n`);
    return usage ? 2 : (EXIT_CODES[String(code)] ?? 1);
  }

  /** Follows the words into the groups and runs what they lead to. */
  async run(command: AnyCommand, args: readonly string[], path: readonly string[]): Promise<number> {
    this.#path = path;
    if (!isGroup(command)) return this.#runCommand(command, args, path);
    const [word, ...rest] = args;
    if (word === undefined || word === '--json') {
      if (word !== undefined && rest.length > 0) return this.run(command, [...rest, word], path);
      this.#printHelp(command, path);
      return 2;
    }
    if (word === '--help' || word === '-h') return this.#printHelp(command, path);
    const child = command.commands.find((candidate) => candidate.name === word);
    if (child) return this.run(child, rest, [...path, word]);
    throw unknownCommand(word, command, path);
  }

  async #runCommand(command: Command, args: readonly string[], path: readonly string[]): Promise<number> {
    const parsed = parseArguments(args, command.options, command.positionals);
    if (parsed.help) return this.#printHelp(command, path);
    const stop = new AbortController();
    setMaxListeners(0, stop.signal); // every process listens
    const interrupt = (signal: NodeJS.Signals) => {
      if (stop.signal.aborted) process.exit(EXIT_CODES[signal]);
      stop.abort(Object.assign(new Error('interrupted'), { code: signal }));
    };
    if (!command.pure) process.on('SIGINT', interrupt).on('SIGTERM', interrupt);
    const context: Context = {
      options: parsed.values as Context['options'],
      positionals: parsed.positionals,
      json: parsed.json,
      style: this.#style,
      width: this.#width,
      interactive: Boolean(this.#streams.stdout.isTTY) && !parsed.json,
      signal: stop.signal,
      progress: (line) => this.#streams.stderr.write(`${line}\n`),
      screen: (text) => {
        if (!parsed.json) this.#streams.stdout.write(text);
      },
    };
    try {
      const outcome = await command.run(context);
      if (parsed.json) this.#printJson(outcome.document);
      else this.#print(typeof outcome.text === 'function' ? outcome.text() : outcome.text);
      return outcome.exitCode ?? 0;
    } catch (error) {
      // Whatever failed after an interruption failed by it.
      throw stop.signal.aborted ? stop.signal.reason : error;
    } finally {
      process.off('SIGINT', interrupt).off('SIGTERM', interrupt);
    }
  }
}

function unknownCommand(word: string, group: CommandGroup, path: readonly string[]): UsageError {
  const names = visibleCommands(group).map(({ name }) => name);
  const near = nearest(word, names);
  const known = names.join(', ');
  return new UsageError(
    `there is no command '${[...path.slice(1), word].join(' ')}'${near ? `; did you mean '${near}'?` : `: there is ${known}`}`,
  );
}

/** Runs the command line `args` (without the program's name) and returns the exit code. Throws nothing. */
export async function main(args: readonly string[], streams: Streams = process): Promise<number> {
  const runner = new Runner(args, streams);
  const path = ['verbena'];
  try {
    const words = args.filter((word, index) => !(word === '--json' && index === 0));
    const json = words.length < args.length ? ['--json'] : [];
    const [name, ...rest] = words;
    if (name === '--version' || name === '-v') {
      const text = json.length > 0 || rest.includes('--json') ? JSON.stringify({ version: version() }) : version();
      streams.stdout.write(`${text}\n`);
      return 0;
    }
    if (name === undefined || name.startsWith('-') || name === 'help') {
      if (name?.startsWith('-') && name !== '--help' && name !== '-h')
        throw new UsageError(`there is no option ${name} before a command`);
      return await runner.run(await loadRoot(), name === 'help' ? [...rest, '--help'] : words, path);
    }
    const command = await loadCommand(name);
    if (!command) throw unknownCommand(name, await loadRoot(), path);
    return await runner.run(command, [...rest, ...json], [...path, name]);
  } catch (error) {
    return runner.fail(error);
  }
}
