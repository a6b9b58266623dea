/** `verbena demo`: what Verbena does, shown in half a minute. */

import { type Context, defineCommand, type OptionSpecs } from '../../command.js';
import { measuringPair } from '../../cpus.js';
import { formatCount, significant } from '../../size.js';
import { columns, type Style } from '../../style.js';
import { measureTargets, targetText } from '../bench/target-table.js';
import { type Reached, reach, type Sight, type Step } from './reach.js';

/** The whole of it ends within this. */
const TOTAL_MS = 24_000;
const BLOCK_MS = 1200;
const ROUND_MS = 60;
const ROUNDS = 5;

function pad(text: string, width: number): string {
  return text + ' '.repeat(Math.max(0, width - columns(text)));
}

/** Two boxes side by side, with an arrow between them. */
export function processBoxes(left: readonly string[], right: readonly string[], arrow: string, style: Style): string {
  const rows = Math.max(left.length, right.length);
  const widths = [left, right].map((lines) => Math.max(...lines.map(columns)));
  const edge = (a: string, b: string, width: number) => style.dim(`${a}${'─'.repeat(width + 2)}${b}`);
  const gap = ' '.repeat(columns(arrow));
  const bar = style.dim('│');
  const body = Array.from({ length: rows }, (_, i) => {
    const middle = i === Math.floor(rows / 2) ? style.cyan(arrow) : gap;
    return `  ${bar} ${pad(left[i] ?? '', widths[0])} ${bar}${middle}${bar} ${pad(right[i] ?? '', widths[1])} ${bar}`;
  });
  return [
    `  ${edge('╭', '╮', widths[0])}${gap}${edge('╭', '╮', widths[1])}`,
    ...body,
    `  ${edge('╰', '╯', widths[0])}${gap}${edge('╰', '╯', widths[1])}`,
  ].join('\n');
}

function startText(initiatorPid: number, targetPid: number, style: Style): string {
  const left = [style.bold('initiator'), `pid ${initiatorPid}`, 'READ, WRITE, atomics'];
  const right = [style.bold('target'), `pid ${targetPid}`, style.yellow('computes primes in a synchronous loop')];
  return `${processBoxes(left, right, ' ──────> ', style)}\n`;
}

function sightText({ clockMs, turns, primes }: Sight, style: Style): string {
  const facts = `blocked for ${clockMs.toFixed(0)} ms, ${formatCount(primes)} primes, event loop at turn ${turns}`;
  return `  ${style.dim('its clock, read from its memory:')} ${facts}\n`;
}

const SIGNS = { READ: '<──', WRITE: '──>', FETCH_AND_ADD: '─+1>' } as const;

function stepText(step: Step, style: Style): string {
  const name = style.bold(pad(step.name, 14));
  const time = style.green(pad(`${significant(step.operationUs)} us`, 9));
  const words = step.name === 'FETCH_AND_ADD' ? `${step.count.toLocaleString('en')} times; ${step.words}` : `"${step.words}"`;
  return `  ${style.cyan(pad(SIGNS[step.name], 5))}${name}${time} ${words}\n`;
}

function awakeningText({ awakening }: Reached, style: Style): string {
  const { blockedMs, turnsWhileBlocked, reply, counter } = awakening;
  return [
    `  ${style.dim('then the target looks up:')} "I was busy for ${blockedMs.toFixed(0)} ms and handled ${style.bold(String(turnsWhileBlocked))} events.`,
    `  My memory says: ${style.green(reply)}; my counter stands at ${style.green(counter.toLocaleString('en'))}."\n`,
  ].join('\n');
}

const FRAMES = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/** The end of the screen, drawn again and again: a table that grows, and a line that says what is going on. Elsewhere only that line, once. */
class LiveTable {
  readonly #context: Context<OptionSpecs>;
  #table = '';
  #doing = '';
  #frame = 0;
  #lines = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(context: Context<OptionSpecs>) {
    this.#context = context;
  }

  doing(words: string): void {
    this.#doing = words;
    if (!this.#context.interactive) this.#context.progress(words);
    else this.#timer ??= setInterval(() => this.#draw(), 100).unref();
  }

  table(text: string): void {
    this.#table = `${text}\n`;
  }

  #draw(): void {
    const { style, screen } = this.#context;
    const line = `  ${style.cyan(FRAMES[this.#frame++ % FRAMES.length])} ${style.dim(this.#doing)}\n`;
    const text = this.#table + line;
    screen(this.#erasing() + text);
    this.#lines = text.split('\n').length - 1;
  }

  #erasing(): string {
    return this.#lines > 0 ? `\x1b[${this.#lines}A\x1b[J` : '';
  }

  end(): void {
    clearInterval(this.#timer);
    this.#context.screen(this.#erasing());
    this.#lines = 0;
  }
}

export const demo = defineCommand({
  name: 'demo',
  summary: "two processes reach into each other's memory, and how fast that is",
  description:
    'Starts a second process that computes in a synchronous loop, so that its event loop stands still, and meanwhile reads its memory, writes into it and counts ' +
    'in it. Then measures against the systems that are installed. Takes less than 30 seconds. `verbena bench verbs --all` measures longer and more.',
  options: {
    provider: { type: 'string', default: 'shm', value: 'NAME', summary: 'the provider, as openDevice takes it' },
    'no-bench': { type: 'flag', summary: 'leave the measurements out' },
  },
  examples: [
    { line: 'verbena demo', note: 'The whole demonstration.' },
    { line: 'verbena demo --no-bench --json', note: 'The facts of the first part, for a program.' },
  ],
  async run(context) {
    const { options, style, signal, screen } = context;
    const start = performance.now();
    const cpus = measuringPair();
    screen(`\n${style.bold('Verbena')}: RDMA for TypeScript\n\n`);
    screen(`${style.bold('1. One-sided means one-sided')}\n\n`);
    const reached = await reach({
      provider: options.provider,
      cpus,
      blockMs: BLOCK_MS,
      signal,
      onStart: (initiatorPid, targetPid) => screen(startText(initiatorPid, targetPid, style)),
      onSight: (sight) => screen(sightText(sight, style)),
      onStep: (step) => screen(stepText(step, style)),
    });
    screen(awakeningText(reached, style));
    if (options['no-bench']) return { document: { reached }, text: '' };

    screen(`\n${style.bold('2. Side by side with what is installed here')}\n\n`);
    const live = new LiveTable(context as Context<OptionSpecs>);
    try {
      const bench = await measureTargets(
        {
          provider: options.provider,
          peers: [],
          rounds: ROUNDS,
          roundMs: ROUND_MS,
          cpus,
          budgetMs: TOTAL_MS - (performance.now() - start),
          signal,
          progress: (line) => live.doing(`measuring ${line}`),
        },
        (document) => live.table(targetText(document, style, false)),
      );
      const took = ((performance.now() - start) / 1000).toFixed(0);
      const text = () =>
        [
          targetText(bench, style, false),
          '',
          `${style.green('Done')} in ${took} s. Short rounds on a busy machine vary: ${style.cyan('verbena bench verbs --all')} measures longer.`,
          `Next: ${style.cyan('verbena doctor')} shows what this machine offers, ${style.cyan('verbena --help')} the rest.`,
        ].join('\n');
      return { document: { reached, bench }, text };
    } finally {
      live.end();
    }
  },
});
