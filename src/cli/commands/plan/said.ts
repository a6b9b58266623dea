/** One question, one table: the form that the small plan commands share. */

import type { Outcome } from '../../command.js';
import type { Style } from '../../style.js';
import { boxTable } from '../../table.js';
import { answer } from './report-file.js';

/** What a small command has to say: one table, perhaps a note and a drawing. */
export interface Said {
  readonly title: string;
  readonly subtitle: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
  readonly document: object;
  readonly note?: string;
  /** A drawing for the page. */
  readonly figure?: () => { readonly svg: string; readonly caption: string };
}

/** Says it as text, JSON and page. */
export function say(said: Said, html: string | undefined, style: Style): Outcome {
  const table = boxTable(
    said.head.map((title, i) => ({ title, align: i === 0 ? 'left' : 'right' })),
    said.rows,
    style,
  );
  return answer(html, {
    document: said.document,
    text: said.note === undefined ? table : `${table}\n${said.note}`,
    page: () => ({
      title: said.title,
      subtitle: said.subtitle,
      sections: [
        {
          heading: said.title,
          text: said.note,
          tables: [{ head: said.head, rows: said.rows }],
          figures: said.figure === undefined ? undefined : [{ ...said.figure(), wide: true }],
        },
      ],
    }),
  });
}
