/** Bytes as people write them: 8, 4K, 1M, 1MiB, 2GB. */

const UNITS: Readonly<Record<string, number>> = {
  '': 1,
  b: 1,
  k: 2 ** 10,
  m: 2 ** 20,
  g: 2 ** 30,
  t: 2 ** 40,
  kib: 2 ** 10,
  mib: 2 ** 20,
  gib: 2 ** 30,
  tib: 2 ** 40,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  tb: 1e12,
};

/** Bytes of a text, or undefined when it is no size or not a whole number of bytes. */
export function parseSize(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)\s*([a-z]*)$/i.exec(text.trim());
  if (!match) return undefined;
  const unit = UNITS[match[2].toLowerCase()];
  if (unit === undefined) return undefined;
  const bytes = Number(match[1]) * unit;
  return Number.isSafeInteger(bytes) ? bytes : undefined;
}

/** A size for people, in powers of two: '8 B', '4 KiB', '1.5 MiB'; round decimal ones stay as they are: '25 MB'. */
export function formatSize(bytes: number): string {
  if (bytes > 0 && bytes % 1e9 === 0 && bytes < 1e12) return `${bytes / 1e9} GB`;
  if (bytes > 0 && bytes % 1e6 === 0 && bytes < 1e9 && bytes % 2 ** 20 !== 0) return `${bytes / 1e6} MB`;
  let value = bytes;
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < 4) {
    value /= 1024;
    unit++;
  }
  const digits = unit === 0 || Number.isInteger(value) ? 0 : value < 10 ? 2 : 1;
  return `${Number(value.toFixed(digits))} ${['B', 'KiB', 'MiB', 'GiB', 'TiB'][unit]}`;
}

/** Three significant digits with a decimal prefix: 12.3 M, 450 k, 7.21 G. */
export function formatCount(value: number): string {
  let scaled = value;
  let unit = 0;
  while (Math.abs(scaled) >= 999.5 && unit < 4) {
    scaled /= 1000;
    unit++;
  }
  return `${significant(scaled)}${['', ' k', ' M', ' G', ' T'][unit]}`;
}

/** Three significant digits, or all before the point, without an exponent: 0.147, 12.3, 1234. */
export function significant(value: number): string {
  if (value === 0 || !Number.isFinite(value)) return String(value);
  const digits = Math.max(0, Math.min(6, 2 - Math.floor(Math.log10(Math.abs(Number(value.toPrecision(3)))))));
  return value.toFixed(digits);
}
