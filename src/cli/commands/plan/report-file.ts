/** The `--html FILE` that every plan command takes: the answer as one self-contained page. */

import { writeFileSync } from 'node:fs';
import { type Page, renderPage } from '../../../plan/report/page.js';
import type { Outcome, StringSpec } from '../../command.js';

export const htmlOption = {
  type: 'string',
  value: 'FILE',
  summary: 'also write the answer as a self-contained page',
} as const satisfies StringSpec;

export interface Answer {
  readonly document: object;
  readonly text: string;
  page(): Page;
}

/** The outcome of a command, after writing the page where one was asked for. */
export function answer(html: string | undefined, { document, text, page }: Answer): Outcome {
  if (html === undefined) return { document, text };
  writeFileSync(html, renderPage(page()));
  return { document: { ...document, html }, text: `${text}\n\nwritten: ${html}` };
}
