/** `verbena plan a800`: from A100 to A800, where 1.75 comes from, when it binds, and what it costs. */

import { drawBars } from '../../../plan/report/bar-chart.js';
import { formatSeconds } from '../../../plan/report/svg.js';
import { a800Study } from '../../../plan/train/a800-study.js';
import type { PlanCost } from '../../../plan/train/plan.js';
import { defineCommand } from '../../command.js';
import { boxTable } from '../../table.js';
import { percent, rate } from './figures.js';
import { answer, htmlOption } from './report-file.js';

export const a800Command = defineCommand({
  name: 'a800',
  summary: 'the A100 to A800 question: must NVLink be 1.75 times the NICs?',
  options: {
    'nic-efficiency': {
      type: 'number',
      summary: 'share of their nominal speed that the NICs reach',
      default: 0.8,
      min: 0.01,
      max: 1,
    },
    devices: { type: 'integer', summary: 'devices of the whole-model comparison', default: 1024, min: 8 },
    html: htmlOption,
  },
  examples: [{ line: 'verbena plan a800 --nic-efficiency 0.8', note: 'Measured NICs: only the A800 binds.' }],
  async run({ options, style }) {
    const study = a800Study({ nicEfficiency: options['nic-efficiency'], devices: options.devices });
    const caseHead = ['case', 'NICs of a host', 'NVLink needed', 'A100: 300 GB/s', 'A800: 200 GB/s'];
    const caseRows = study.cases.map((c) => [
      c.name,
      rate(c.nicBytesPerSecond),
      rate(c.neededBytesPerSecond),
      ...c.devices.map((d) => `${d.ratio.toFixed(3)} x, ${d.binds ? 'binds' : 'passes'}`),
    ]);
    const { layer, training } = study;
    const layerHead = ['one GPT-3 layer forward, t = 8', 'computing', 'tensor exchange', 'together'];
    const layerRows = layer.devices.map((d) => [
      d.device,
      formatSeconds(layer.computeSeconds),
      formatSeconds(d.exchangeSeconds),
      formatSeconds(d.totalSeconds),
    ]);
    const planHead = ['whole model', 'data x tensor x stages', 'step', 'tensor exchange', 'against A100 with that plan'];
    const planRow = (name: string, cost: PlanCost, slowdown?: number): string[] => [
      name,
      planText(cost),
      formatSeconds(cost.seconds.total),
      formatSeconds(cost.seconds.tensor),
      slowdown === undefined ? '' : `+${percent(slowdown)}`,
    ];
    const planRows = [
      planRow('A100, its best plan', training.samePlan[0]),
      planRow('A800, the same plan', training.samePlan[1], training.samePlanSlowdown),
      planRow('A800, its own best plan', training.bestPlans[1], training.replannedSlowdown),
      ...training.byTensor.map(({ tensor, a800, slowdown }) => planRow(`A800, best plan at t = ${tensor}`, a800, slowdown)),
    ];
    const story = [
      `One all-reduce of V over t devices puts 2(t-1)/t V on every link: ${study.factors.map((f) => `${f.factor} at t = ${f.tensor}`).join(', ')}.`,
      `The pipeline boundary carries V once. Without scatter/gather each NIC carries all of V: NVLink must be 1.75 x one NIC = ${rate(study.perNicBytesPerSecond)}, which every device has.`,
      'With scatter/gather the eight NICs share V, so NVLink is compared with their sum:',
    ];
    const left = (title: string, i: number) => ({ title, align: i === 0 ? ('left' as const) : ('right' as const) });
    const text = [
      ...story,
      boxTable(caseHead.map(left), caseRows, style),
      `But equality is no criterion: a stage has two all-reduces a layer and mostly computes. V is ${(layer.exchangedBytes / 1e6).toFixed(1)} MB, ${(layer.wireBytes / 1e6).toFixed(0)} MB on the wire a layer forward:`,
      boxTable(layerHead.map(left), layerRows, style),
      `A third less NVLink makes a layer ${percent(layer.slowdown)} slower.`,
      boxTable(planHead.map(left), planRows, style),
    ].join('\n');
    return answer(options.html, {
      document: study,
      text,
      page: () => ({
        title: 'From A100 to A800',
        subtitle: 'Must NVLink be 1.75 times as fast as the NICs?',
        sections: [
          { heading: 'Where 1.75 comes from', text: story.join(' '), tables: [{ head: caseHead, rows: caseRows }] },
          {
            heading: 'What it costs',
            text: `A third less NVLink makes a GPT-3 layer ${percent(layer.slowdown)} slower, and the whole training ${percent(training.replannedSlowdown)}.`,
            tables: [
              { head: layerHead, rows: layerRows },
              { head: planHead, rows: planRows },
            ],
            figures: [
              {
                svg: drawBars(
                  'a layer',
                  ['computing', 'tensor exchange'],
                  layer.devices.map((d) => ({
                    name: d.device.toUpperCase(),
                    values: [layer.computeSeconds, d.exchangeSeconds],
                    note: formatSeconds(d.totalSeconds),
                  })),
                ),
                caption: 'One GPT-3 layer forward, one sequence, eight devices.',
                wide: true,
              },
            ],
          },
        ],
      }),
    });
  },
});

function planText(cost: PlanCost): string {
  const { data, tensor, pipeline, microBatch } = cost.choice;
  return `${data} x ${tensor} x ${pipeline}, micro ${microBatch}`;
}
