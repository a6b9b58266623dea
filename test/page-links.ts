/** Where the links of a page lead: relative ones, each as a path from the root of what the page belongs to, and the heading behind `#`. */

import { join } from 'node:path/posix';

export interface PageLink {
  readonly path: string;
  /** Empty: the page as a whole. */
  readonly heading: string;
}

export function linksOf(page: string, markdown: string): PageLink[] {
  return [...markdown.matchAll(/\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)/g)].map(([, target, heading = '']) => ({
    path: target === '' ? page : join(page, '..', target),
    heading,
  }));
}

/** The names by which the headings of a page can be linked to. */
export function headingsOf(markdown: string): string[] {
  const plain = markdown.replaceAll(/^```[\s\S]*?^```$/gm, '');
  return [...plain.matchAll(/^#+ (.*)$/gm)].map(([, title]) =>
    title
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}
