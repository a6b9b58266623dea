/** A pipeline schedule as a timeline: a row per stage, a block per piece of work, what is left between them is the bubble. Times are those of its exact simulation. */
import { type PipelineName, type PipelineOperation, type PipelineOptions, simulatePipeline } from '../../schedule/pipeline.js';
import { at, escapeXml, svg } from './svg.js';

const fills: Readonly<Partial<Record<PipelineOperation, string>>> = {
  forward: 'var(--series-0)',
  backward: 'var(--series-2)',
  backwardInput: 'var(--series-2)',
  backwardWeight: 'var(--series-6)',
};

/** Draws a schedule in which forward, backward of inputs and backward of weights take one unit each. `scaleTo`: units across, so that several drawings compare. */
export function drawPipeline(name: PipelineName, options: PipelineOptions, scaleTo?: number): string {
  const timing = simulatePipeline(name, options, { forward: 1, backwardInput: 1, backwardWeight: 1 });
  const [width, left, row, top] = [960, 62, 26, 30];
  const height = top + options.stages * row + 6;
  const scale = (width - left - 10) / (scaleTo ?? timing.total);
  const bubble = timing.total - timing.ideal;
  const note = `bubble ${((bubble / timing.ideal) * 100).toFixed(1)} % of the work, at most ${Math.max(...timing.inFlight)} micro-batches in flight`;
  const body = [
    `<text x="${left}" y="18" class="strong">${escapeXml(name)}</text><text x="${width - 10}" y="18" text-anchor="end">${escapeXml(note)}</text>`,
  ];
  for (const [stage, blocks] of timing.starts.entries()) {
    const y = top + stage * row;
    body.push(
      `<rect x="${left}" y="${y}" width="${at(timing.total * scale)}" height="${row - 5}" fill="var(--grid)" rx="2"/><text x="${left - 8}" y="${y + 15}" text-anchor="end">stage ${stage}</text>`,
    );
    for (const { instruction, start, end } of blocks) {
      const [x, w] = [left + start * scale, (end - start) * scale];
      const opacity = instruction.part % 2 === 0 ? 1 : 0.6;
      body.push(
        `<rect x="${at(x + 0.4)}" y="${y}" width="${at(Math.max(0.5, w - 0.8))}" height="${row - 5}" rx="1.5" fill="${fills[instruction.op]}" opacity="${opacity}"/>`,
      );
      if (w > 11)
        body.push(
          `<text x="${at(x + w / 2)}" y="${y + 15}" text-anchor="middle" style="fill:#fff;font-size:10.5px">${instruction.microbatch}</text>`,
        );
    }
  }
  return svg(width, height, `${name} pipeline`, body.join(''));
}
