/** Colours and emphasis for terminals: plain text where there is none, or where NO_COLOR is set. */

export interface Style {
  readonly enabled: boolean;
  bold(text: string): string;
  dim(text: string): string;
  red(text: string): string;
  green(text: string): string;
  yellow(text: string): string;
  blue(text: string): string;
  magenta(text: string): string;
  cyan(text: string): string;
}

const CODES = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  blue: [34, 39],
  magenta: [35, 39],
  cyan: [36, 39],
} as const;

/** Style of a stream. `FORCE_COLOR` wins over a missing terminal, `NO_COLOR` (any value but empty) over everything. */
export function styleFor(stream: { isTTY?: boolean }, env: NodeJS.ProcessEnv = process.env): Style {
  const forced = Boolean(env['FORCE_COLOR']) && env['FORCE_COLOR'] !== '0';
  const enabled = !env['NO_COLOR'] && (forced || (Boolean(stream.isTTY) && env['TERM'] !== 'dumb'));
  return makeStyle(enabled);
}

export function makeStyle(enabled: boolean): Style {
  const paint = (name: keyof typeof CODES) => {
    const [on, off] = CODES[name];
    return enabled ? (text: string) => `\x1b[${on}m${text}\x1b[${off}m` : (text: string) => text;
  };
  return {
    enabled,
    bold: paint('bold'),
    dim: paint('dim'),
    red: paint('red'),
    green: paint('green'),
    yellow: paint('yellow'),
    blue: paint('blue'),
    magenta: paint('magenta'),
    cyan: paint('cyan'),
  };
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences start with one
const ESCAPES = /\x1b\[[0-9;?]*[A-Za-z]/g;

/** Text without escape sequences. */
export function plain(text: string): string {
  return text.replace(ESCAPES, '');
}

/** Columns that a text takes, escape sequences not counted. All our text is narrow characters. */
export function columns(text: string): number {
  return [...plain(text)].length;
}
