/** What a person sees while a training runs: one line that redraws itself in a terminal, or a line every few seconds elsewhere. */

import type { FitReport } from '../../../train/index.js';
import { formatCount } from '../../size.js';
import type { Style } from '../../style.js';

const BAR = 20;
/** Between two lines where nothing can be redrawn. */
const LINE_EVERY_MS = 5000;

export interface Screen {
  readonly style: Style;
  readonly interactive: boolean;
  readonly width: number;
  screen(text: string): void;
}

function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}

/** Nothing where a single bucket leaves nothing to overlap. */
function overlapped(share: number): string {
  return share === 0 ? '' : `, ${percent(share)} overlapped`;
}

/** Seconds as people say them: 42 s, 2:05. */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  return whole < 100 ? `${whole} s` : `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, '0')}`;
}

export class LiveProgress {
  readonly #to: Screen;
  readonly #began = performance.now();
  #firstStep: number | undefined;
  #lastLine = 0;
  #drawn = false;

  constructor(to: Screen) {
    this.#to = to;
  }

  /** A line that stays. */
  line(text: string): void {
    this.#clear();
    this.#to.screen(`${text}\n`);
  }

  report(report: FitReport): void {
    const { style, interactive } = this.#to;
    const now = performance.now();
    this.#firstStep ??= report.step;
    if (!interactive && now - this.#lastLine < LINE_EVERY_MS) return;
    this.#lastLine = now;
    const seconds = (now - this.#began) / 1e3;
    const rate = (report.step - this.#firstStep) / Math.max(0.1, seconds);
    const left = rate > 0 ? duration((report.steps - report.step) / rate) : '?';
    const filled = Math.round((BAR * report.step) / report.steps);
    const bar = style.green('█'.repeat(filled)) + style.dim('░'.repeat(BAR - filled));
    const parts = [
      `${bar} epoch ${report.epoch + 1}`,
      `loss ${style.bold(report.loss.toFixed(4))}`,
      `${percent(report.accuracy)} of the batches`,
      `${style.cyan(`${formatCount(report.samplesPerSecond)} samples/s`)}`,
      report.ranks > 1
        ? `transfer ${percent(report.transferShare)}, waiting ${percent(report.waitShare)}${overlapped(report.overlap)}`
        : 'one rank',
      `${left} left`,
    ];
    const text = `  ${parts.join('  ')}`;
    if (interactive) {
      this.#to.screen(`\r\x1b[2K${text}`);
      this.#drawn = true;
    } else this.#to.screen(`${text}\n`);
  }

  /** Takes the redrawn line away. */
  end(): void {
    this.#clear();
  }

  #clear(): void {
    if (this.#drawn) this.#to.screen('\r\x1b[2K');
    this.#drawn = false;
  }
}
