/** `verbena explain COLLECTIVE`: the candidates, what each would cost, and why the chosen one won. */

import { ALGORITHMS, explainVerdict, LOCAL_MACHINE, parseOverride, selectAlgorithm } from '../../../collectives/index.js';
import type { Collective } from '../../../schedule/schedule.js';
import { defineCommand, UsageError } from '../../command.js';
import { formatSize, significant } from '../../size.js';
import { boxTable } from '../../table.js';

const NAMES = Object.keys(ALGORITHMS);

/** A collective by its name; `allgather`, `alltoall` and the like are understood without their hyphens. @throws UsageError */
export function collectiveNamed(word: string | undefined): Collective {
  const found = NAMES.find((name) => name === word || name.replaceAll('-', '') === word);
  if (found === undefined) throw new UsageError(`name a collective: ${NAMES.join(', ')}; got '${word ?? ''}'`);
  return found as Collective;
}

export const explain = defineCommand({
  name: 'explain',
  summary: 'shows which algorithm a collective takes, and why',
  description: 'Predicted times of every algorithm for ranks of one host, with default constants of a usual server.',
  positionals: [{ name: 'collective', summary: 'allreduce, broadcast, ...', required: true }],
  options: {
    ranks: { type: 'integer', default: 8, min: 1, max: 1024, summary: 'ranks' },
    size: { type: 'size', default: 1 << 20, min: 0, summary: 'bytes of the vector' },
    root: { type: 'integer', default: 0, min: 0, summary: 'root rank, where there is one' },
    algorithms: { type: 'string', value: 'STRING', summary: 'an override, as in allreduce:ring' },
  },
  examples: [{ line: 'verbena explain allreduce --ranks 8 --size 1M', note: 'Candidates, predicted times, and why each lost.' }],
  async run({ options, positionals, style }) {
    const collective = collectiveNamed(positionals[0]);
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
