/** The graph of a plan as SVG: a box per stage with its operators, an arrow per shuffle. Stages stand below what they read. */

import type { ExplainedStage, PlanExplanation } from './explain.js';

const WIDTH = 300;
const GAP = 40;
const LINE = 18;
const HEAD = 28;

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}

function shortened(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}

/** How far below the sources a stage stands. */
function depthOf(stage: ExplainedStage, stages: readonly ExplainedStage[]): number {
  return Math.max(0, ...stage.reads.map(({ stage: id }) => depthOf(stages[id], stages) + 1));
}

export function drawPlan({ stages, shuffle, ranks }: PlanExplanation): string {
  const rows: ExplainedStage[][] = [];
  for (const stage of stages) {
    const depth = depthOf(stage, stages);
    rows[depth] ??= [];
    rows[depth].push(stage);
  }
  const heightOf = ({ operators }: ExplainedStage) => HEAD + operators.length * LINE + 12;
  const at = new Map<number, { x: number; y: number; height: number }>();
  let y = 50;
  for (const row of rows) {
    for (const [i, stage] of row.entries()) at.set(stage.id, { x: GAP + i * (WIDTH + GAP), y, height: heightOf(stage) });
    y += Math.max(...row.map(heightOf)) + 60;
  }
  const width = GAP + Math.max(...rows.map(({ length }) => length)) * (WIDTH + GAP);
  const title = `${stages.length} stages on ${ranks} ranks, shuffle ${escaped(shuffle.name)}`;
  const out: string[] = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${y}" viewBox="0 0 ${width} ${y}" font-family="system-ui, sans-serif" font-size="13">`,
    `<title>${title}</title>`,
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#567"/></marker></defs>',
    `<rect width="${width}" height="${y}" fill="#fff"/>`,
    `<text x="${GAP}" y="28" font-weight="600">${title}</text>`,
  ];
  for (const stage of stages) {
    const to = at.get(stage.id) as { x: number; y: number; height: number };
    for (const { stage: id, words } of stage.reads) {
      const from = at.get(id) as { x: number; y: number; height: number };
      const [x1, y1, x2, y2] = [from.x + WIDTH / 2, from.y + from.height, to.x + WIDTH / 2, to.y - 2];
      const middle = (y1 + y2) / 2;
      out.push(
        `<path d="M${x1} ${y1} C${x1} ${middle} ${x2} ${middle} ${x2} ${y2}" fill="none" stroke="#567" stroke-width="1.5" marker-end="url(#arrow)"/>`,
        `<text x="${(x1 + x2) / 2 + 8}" y="${middle + 4}" fill="#567" font-size="11">${escaped(shortened(words, 44))}</text>`,
      );
    }
    out.push(
      `<rect x="${to.x}" y="${to.y}" width="${WIDTH}" height="${to.height}" rx="6" fill="#eef3f8" stroke="#9ab"/>`,
      `<text x="${to.x + 12}" y="${to.y + 19}" font-weight="600">stage ${stage.id}: ${stage.partitions} tasks</text>`,
    );
    for (const [i, { name, words, isCached }] of stage.operators.entries()) {
      const text = `${name}${words === '' ? '' : ` (${words})`}${isCached ? ' cached' : ''}`;
      out.push(`<text x="${to.x + 20}" y="${to.y + HEAD + 12 + i * LINE}">${escaped(shortened(text, 42))}</text>`);
    }
  }
  return `${out.join('\n')}\n</svg>\n`;
}
