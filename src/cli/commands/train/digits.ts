/** Images drawn with half blocks: two rows of pixels in a line of text. */

const PAPER = 100;
/** MNIST digits stand in the middle 20 x 20 of their 28 x 28. */
const CROP = 4;

/** A 28 x 28 image of bytes as 10 lines of 20 characters. */
export function drawDigit(image: Uint8Array): string[] {
  const dark = (row: number, column: number) => image[(row + CROP) * 28 + column + CROP] > PAPER;
  return Array.from({ length: 10 }, (_, line) =>
    Array.from({ length: 20 }, (_, column) => {
      const upper = dark(2 * line, column);
      const lower = dark(2 * line + 1, column);
      return upper && lower ? '█' : upper ? '▀' : lower ? '▄' : ' ';
    }).join(''),
  );
}

/** Drawings side by side, each with a caption below, as many in a row as fit into `width` columns. */
export function besideEachOther(
  drawings: readonly { readonly lines: readonly string[]; readonly caption: string }[],
  width: number,
): string {
  const wide = 23;
  const perRow = Math.max(1, Math.floor(width / wide));
  const rows: string[] = [];
  for (let from = 0; from < drawings.length; from += perRow) {
    const row = drawings.slice(from, from + perRow);
    for (let line = 0; line < 10; line++)
      rows.push(
        `  ${row
          .map(({ lines }) => lines[line].padEnd(wide))
          .join('')
          .trimEnd()}`,
      );
    rows.push(
      `  ${row
        .map(({ caption }) => caption.padEnd(wide))
        .join('')
        .trimEnd()}`,
      '',
    );
  }
  return rows.join('\n');
}
