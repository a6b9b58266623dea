/** `verbena explain tag`: which protocol a message of some size takes, and why. */

import { openContext } from '../../../messaging/context.js';
import type { Explanation, Range } from '../../../messaging/index.js';
import { LINK_COSTS } from '../../../messaging/protocols/costs.js';
import { explainSelection } from '../../../messaging/protocols/explanation.js';
import { select } from '../../../messaging/protocols/selection.js';
import { defineCommand, type Outcome } from '../../command.js';
import { formatSize, significant } from '../../size.js';
import type { Style } from '../../style.js';
import { boxTable } from '../../table.js';

const LINKS = Object.keys(LINK_COSTS);

/** A range of sizes in words. */
function rangeText({ fromBytes, toBytes, protocol }: Range): string {
  return `${fromBytes} B${toBytes === Number.POSITIVE_INFINITY ? ' and more' : ` to ${toBytes - 1} B`}: ${protocol}`;
}

function explanationText(explanation: Explanation, style: Style): string {
  const head = [{ title: 'protocol' }, { title: 'cost', align: 'right' }, { title: 'why' }, { title: 'what it does' }] as const;
  const rows = explanation.candidates.map((candidate) => [
    candidate.chosen ? style.bold(candidate.protocol) : candidate.protocol,
    candidate.costNs === undefined ? '-' : `${significant(candidate.costNs / 1000)} us`,
    candidate.reason,
    style.dim(candidate.summary),
  ]);
  return [
    `${style.bold(`tag, ${formatSize(explanation.bytes)}: ${explanation.protocol}`)}; the send completes ${explanation.completion}`,
    boxTable(head, rows, style),
    ...explanation.ranges.map(rangeText),
    ...(explanation.engine === undefined ? [] : [explanation.engine]),
  ].join('\n');
}

/** An endpoint of this machine to itself, so that the explanation is of a real one. */
async function explainHere(device: string, bytes: number, lanes: number): Promise<Explanation> {
  const near = await openContext({ device, name: 'verbena explain' });
  const far = await openContext({ device, name: 'verbena explain' });
  try {
    const [here, there] = await Promise.all([near.createWorker({ lanes }), far.createWorker({ lanes })]);
    const endpoint = here.connect(there.address);
    await endpoint.ready();
    return endpoint.explain('tag', bytes);
  } finally {
    await near.close();
    await far.close();
  }
}

export const explainTag = defineCommand({
  name: 'tag',
  summary: 'which protocol a tagged message takes, and why',
  description:
    'The candidates, their costs at this size, why each lost, and the ranges of sizes. Without --link it is an endpoint of this machine, with the constants that `verbena tune` ' +
    'measured if it was run; with --link it is an invented NIC of that kind.',
  options: {
    size: { type: 'size', default: 8, min: 0, max: 2 ** 40, summary: 'payload of the message' },
    engine: { type: 'string', default: 'shm', value: 'NAME', summary: 'the device, as openContext takes it' },
    lanes: { type: 'integer', default: 1, min: 1, max: 16, summary: 'queue pairs of the endpoint' },
    link: { type: 'choice', choices: LINKS, summary: 'explain for a link of this kind instead' },
  },
  examples: [
    { line: 'verbena explain tag --size 64K', note: 'Here.' },
    { line: 'verbena explain tag --size 32K --link edr', note: 'On EDR InfiniBand: the threshold is at 29 KB.' },
  ],
  async run({ options, style }): Promise<Outcome> {
    const { size, engine, lanes, link } = options;
    let explanation: Explanation;
    if (link === undefined) {
      explanation = await explainHere(engine, size, lanes);
    } else {
      const abilities = {
        shortBytes: 128,
        eagerBytes: 1 << 20,
        directRing: false,
        read: true,
        write: true,
        lanes,
        fragmentBytes: 512 << 10,
        contiguous: true,
      };
      explanation = explainSelection('tag', size, LINK_COSTS[link], select(LINK_COSTS[link], abilities));
    }
    return { document: explanation, text: () => explanationText(explanation, style) };
  },
});
