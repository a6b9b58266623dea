/**
 * A report as one self-contained page: no script, no request, no font to fetch. Sections are data; drawings come in as SVG.
 */
import { escapeXml } from './svg.js';

export interface Card {
  readonly label: string;
  readonly value: string;
  readonly note?: string;
}

export interface PageTable {
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
  /** Row that stands out. */
  readonly highlight?: number;
}

/** A part of a page under one heading. */
export interface Section {
  readonly heading: string;
  readonly text?: string;
  readonly cards?: readonly Card[];
  /** SVG drawings with captions. */
  readonly figures?: readonly { readonly svg: string; readonly caption: string; readonly wide?: boolean }[];
  readonly tables?: readonly PageTable[];
}

export interface Page {
  readonly title: string;
  readonly subtitle: string;
  readonly sections: readonly Section[];
}

/** The page as HTML that loads nothing from elsewhere. */
export function renderPage(page: Page): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeXml(page.title)}</title><style>${style}</style></head>
<body><header><p class="mark">verbena plan</p><h1>${escapeXml(page.title)}</h1><p class="subtitle">${escapeXml(page.subtitle)}</p></header>
<main>${page.sections.map(renderSection).join('\n')}</main>
<footer>Made by <code>verbena plan</code>. Speeds are one way; GB is 10⁹ bytes, GiB is 2³⁰.</footer></body></html>
`;
}

function renderSection(section: Section): string {
  const cards = section.cards === undefined ? '' : `<div class="cards">${section.cards.map(renderCard).join('')}</div>`;
  const figures =
    section.figures === undefined
      ? ''
      : `<div class="figures">${section.figures.map((f) => `<figure${f.wide ? ' class="wide"' : ''}>${f.svg}<figcaption>${escapeXml(f.caption)}</figcaption></figure>`).join('')}</div>`;
  const tables = (section.tables ?? []).map(renderTable).join('');
  const text = section.text === undefined ? '' : `<p>${escapeXml(section.text)}</p>`;
  return `<section><h2>${escapeXml(section.heading)}</h2>${text}${cards}${figures}${tables}</section>`;
}

function renderCard(card: Card): string {
  const note = card.note === undefined ? '' : `<span class="note">${escapeXml(card.note)}</span>`;
  return `<div class="card"><span class="label">${escapeXml(card.label)}</span><span class="value">${escapeXml(card.value)}</span>${note}</div>`;
}

function renderTable(table: PageTable): string {
  const numeric = table.head.map((_, i) => table.rows.every((row) => /^[-+~]?[\d.,∞]|^$|^-$/.test(row[i] ?? '')));
  const cell = (tag: string, text: string, i: number): string =>
    `<${tag}${numeric[i] ? ' class="n"' : ''}>${escapeXml(text)}</${tag}>`;
  const head = table.head.map((title, i) => cell('th', title, i)).join('');
  const rows = table.rows.map(
    (row, r) => `<tr${r === table.highlight ? ' class="best"' : ''}>${row.map((text, i) => cell('td', text, i)).join('')}</tr>`,
  );
  return `<div class="scroll"><table><thead><tr>${head}</tr></thead><tbody>${rows.join('')}</tbody></table></div>`;
}

const style = `
:root{--bg:#f6f7f9;--paper:#fff;--ink:#16202c;--soft:#5b6878;--line:#dfe4ea;--accent:#1d4ed8;--grid:#e8ecf1;--node:#334155;--switch:#1d4ed8;
--series-0:#1d4ed8;--series-1:#ea580c;--series-2:#15803d;--series-3:#9333ea;--series-4:#dc2626;--series-5:#0e7490;--series-6:#b45309;--series-7:#db2777;--series-8:#4d7c0f;--series-9:#64748b;--best:#ecfdf3}
@media(prefers-color-scheme:dark){:root{--bg:#0e141b;--paper:#161e27;--ink:#e8edf2;--soft:#9aa8b7;--line:#2a3542;--accent:#7aa7ff;--grid:#222d39;--node:#c3cedb;--switch:#7aa7ff;
--series-0:#7aa7ff;--series-1:#fb923c;--series-2:#4ade80;--series-3:#c084fc;--series-4:#f87171;--series-5:#22d3ee;--series-6:#fbbf24;--series-7:#f472b6;--series-8:#a3e635;--series-9:#94a3b8;--best:#12301f}}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif}
header,main,footer{max-width:1240px;margin:0 auto;padding:0 24px}header{padding-top:44px}
.mark{margin:0;color:var(--accent);font-weight:600;letter-spacing:.08em;text-transform:uppercase;font-size:12px}
h1{margin:6px 0 4px;font-size:32px;line-height:1.2;letter-spacing:-.02em}.subtitle{margin:0 0 26px;color:var(--soft);font-size:16px}
section{background:var(--paper);border:1px solid var(--line);border-radius:14px;padding:24px 26px;margin:0 0 20px}
h2{margin:0 0 10px;font-size:19px;letter-spacing:-.01em}section>p{margin:0 0 16px;color:var(--soft);max-width:80ch}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:6px 0 18px}
.card{border:1px solid var(--line);border-radius:10px;padding:12px 14px;display:flex;flex-direction:column;gap:2px}
.label{color:var(--soft);font-size:12.5px}.value{font-size:22px;font-weight:650;letter-spacing:-.01em;font-variant-numeric:tabular-nums}.note{color:var(--soft);font-size:12px}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(430px,1fr));gap:22px;margin:10px 0 14px}figure{margin:0}figure.wide{grid-column:1/-1}
figure svg{width:100%;height:auto;max-height:620px;display:block}figcaption{color:var(--soft);font-size:13px;margin-top:8px}
.scroll{overflow-x:auto;margin-top:8px}table{border-collapse:collapse;width:100%;font-size:13.5px;font-variant-numeric:tabular-nums}
th{text-align:left;color:var(--soft);font-weight:600;border-bottom:1px solid var(--line);padding:7px 8px;white-space:nowrap}
td{padding:6px 8px;border-bottom:1px solid var(--grid);vertical-align:top}.n{text-align:right;white-space:nowrap}tr:last-child td{border-bottom:0}tr.best td{background:var(--best);font-weight:600}
footer{color:var(--soft);font-size:12.5px;padding-top:4px;padding-bottom:40px}code{font-size:.95em}
svg text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;fill:var(--soft)}svg .strong{fill:var(--ink);font-weight:600}
@media(max-width:560px){.figures{grid-template-columns:1fr}section{padding:18px 14px}}
@media print{body{background:#fff}section{break-inside:avoid}}`;
