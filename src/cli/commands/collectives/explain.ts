/** `verbena explain`: what would be chosen for a message or a collective, what each candidate would cost, and why the chosen one won. */

import { ALGORITHMS, explainVerdict, LOCAL_MACHINE, parseOverride, selectAlgorithm } from '../../../collectives/index.js';
import type { Collective } from '../../../schedule/schedule.js';
import { type CommandGroup, defineCommand, UsageError } from '../../command.js';
import { formatSize, significant } from '../../size.js';
import { boxTable } from '../../table.js';
import { explainTag } from '../messaging/explain-tag.js';
import { explainStep } from '../train/explain-step.js';

const NAMES = Object.keys(ALGORITHMS);

/** A collective by its name; `allgather`, `alltoall` and the like are understood without their hyphens. @throws UsageError */
export function collectiveNamed(word: string | undefined): Collective {
  const found = NAMES.find((name) => name === word || name.replaceAll('-', '') === word);
  if (found === undefined) throw new UsageError(`name a collective: ${NAMES.join(', ')}; got '${word ?? ''}'`);
  return found as Collective;
}

const explainCollective = (collective: Collective) => {
  const word = collective.replaceAll('-', '');
  return defineCommand({
    name: word,
    summary: `shows which algorithm ${collective} takes, and why`,
    description: 'Predicted times of every algorithm for ranks of one host, with default constants of a usual server.',
    options: {
      ranks: { type: 'integer', default: 8, min: 1, max: 1024, summary: 'ranks' },
      size: { type: 'size', default: 1 << 20, min: 0, summary: 'bytes of the vector' },
      root: { type: 'integer', default: 0, min: 0, summary: 'root rank, where there is one' },
      algorithms: { type: 'string', value: 'STRING', summary: 'an override, as in allreduce:ring' },
    },
    examples: [{ line: `verbena explain ${word} --ranks 8 --size 1M`, note: 'Candidates, predicted times, and why each lost.' }],
    async run({ options, style }) {
      const override = options.algorithms === undefined ? undefined : parseOverride(options.algorithms);
      const shape = { size: options.ranks, bytes: options.size, root: options.root };
      const selection = selectAlgorithm(collective, shape, LOCAL_MACHINE, override);
      const candidates = selection.candidates.map(({ name, verdict, seconds, segments }) => ({
        name,
        verdict: explainVerdict(verdict),
        ...(seconds === undefined ? {} : { us: seconds * 1e6 }),
        ...(segments === undefined ? {} : { segments }),
      }));
      const document = { collective, ...shape, chosen: selection.algorithm.name, candidates };
      const text = () =>
        [
          `${style.bold(`${collective} of ${formatSize(options.size)} among ${options.ranks}`)}: ${selection.algorithm.name}, ${selection.algorithm.description}`,
          boxTable(
            [
              { title: 'algorithm' },
              { title: 'predicted', align: 'right' },
              { title: 'segments', align: 'right' },
              { title: 'verdict' },
            ],
            candidates.map(({ name, verdict, us, segments }) => [
              name,
              us === undefined ? '' : `${significant(us)} us`,
              String(segments ?? ''),
              verdict,
            ]),
            style,
          ),
        ].join('\n');
      return { document, text };
    },
  });
};

export const explain: CommandGroup = {
  name: 'explain',
  summary: 'shows what would be chosen for a message or a collective, and why',
  commands: [explainTag, explainStep, ...NAMES.map((name) => explainCollective(name as Collective))],
  examples: [
    {
      line: 'verbena explain tag --size 64K',
      note: 'The protocols of a message, their costs, and where one takes over from another.',
    },
    { line: 'verbena explain allreduce --ranks 8 --size 1M', note: 'Candidates, predicted times, and why each lost.' },
  ],
};
