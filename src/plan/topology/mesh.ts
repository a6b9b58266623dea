/**
 * 2D mesh: a grid of nodes without wrap-around. Short cables only, which is why it lives on chips and boards; the
 * border nodes have fewer links, so it is not regular.
 *
 * Bisection: cut across the longer side. When that side is odd no straight cut is balanced, the middle line must be
 * split too, and one more link falls: lo for an even longer side, lo + 1 for an odd one.
 */
import { type Network, NetworkBuilder } from './network.js';
import { countLinks, diameterOfNodes, type GrowthStep, readParameters, scalar, type Topology } from './topology.js';

export const mesh: Topology = {
  name: 'mesh',
  summary: '2D grid without wrap-around; short cables, weak middle',
  parameters: [
    { name: 'rows', meaning: 'nodes down', minimum: 2 },
    { name: 'columns', meaning: 'nodes across', minimum: 2, default: (given) => given['rows'] as number },
  ],

  figures(given) {
    const parameters = readParameters(mesh, given);
    const rows = scalar(parameters, 'rows');
    const columns = scalar(parameters, 'columns');
    const n = rows * columns;
    const low = Math.min(rows, columns);
    const cut = Math.max(rows, columns) % 2 === 0 ? low : low + 1;
    const ports = (rows > 2 ? 2 : 1) + (columns > 2 ? 2 : 1);
    return {
      topology: 'mesh',
      parameters,
      endpoints: n,
      switches: n,
      switchSizes: [],
      radix: ports,
      links: countLinks([['mesh', 'aoc', rows * (columns - 1) + columns * (rows - 1)]]),
      diameter: diameterOfNodes(rows + columns - 2),
      bisection: { links: cut, exactness: 'exact', relative: cut / (Math.floor(n / 2) * ports) },
      kind: 'direct',
      regular: rows === 2 && columns === 2,
      blocking: { nonBlocking: false, ratio: Math.max(1, Math.floor(n / 2) / cut) },
    };
  },

  build(given): Network {
    const parameters = readParameters(mesh, given);
    const rows = scalar(parameters, 'rows');
    const columns = scalar(parameters, 'columns');
    const builder = new NetworkBuilder(`mesh ${rows}x${columns}`, rows * columns);
    for (let y = 0; y < rows; y++) {
      for (let x = 0; x < columns; x++) {
        const v = y * columns + x;
        builder.place(v, (x + 0.5) / columns, (y + 0.5) / rows);
        if (x + 1 < columns) builder.addLink(v, v + 1, 'mesh', 'aoc');
        if (y + 1 < rows) builder.addLink(v, v + columns, 'mesh', 'aoc');
      }
    }
    return builder.build({ endpointsForward: true, grid: { sizes: [columns, rows], wrap: false } });
  },

  grow(given): GrowthStep {
    const parameters = readParameters(mesh, given);
    const rows = scalar(parameters, 'rows');
    const columns = scalar(parameters, 'columns');
    const next = rows <= columns ? { rows: rows + 1, columns } : { rows, columns: columns + 1 };
    return { parameters: next, movedLinks: 0, keepsSwitches: true, description: 'one line of nodes more along the border' };
  },

  fit(endpoints) {
    const rows = Math.max(2, Math.floor(Math.sqrt(endpoints)));
    return { rows, columns: Math.max(2, Math.ceil(endpoints / rows)) };
  },
};
