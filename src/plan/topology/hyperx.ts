/**
 * HyperX: switches on an integer lattice, fully joined along every line of every dimension. One hop corrects one coordinate, so the diameter
 * is the number of dimensions. K_i parallel links per pair in dimension i and T endpoints per switch set the bisection:
 * relative K_i S_i / (2T) in the weakest dimension. Flattened butterfly and hypercube are special cases. Published: Ahn et al. 2009.
 */
import { PlanRefusal } from '../refusal.js';
import { type Network, NetworkBuilder } from './network.js';
import {
  countLinks,
  diameterBehindSwitches,
  type GrowthStep,
  list,
  readParameters,
  scalar,
  type Topology,
  type TopologyParameters,
} from './topology.js';

export const hyperx: Topology = {
  name: 'hyperx',
  summary: 'lattice of switches, every line fully joined; one hop per dimension',
  parameters: [
    { name: 'sizes', meaning: 'switches per dimension', minimum: 2, list: true },
    { name: 'endpoints', meaning: 'endpoints per switch', minimum: 1 },
    { name: 'parallel', meaning: 'parallel links per pair, per dimension', minimum: 1, list: true, default: [1] },
  ],

  figures(given) {
    const parameters = check(given);
    const sizes = list(parameters, 'sizes');
    const parallel = list(parameters, 'parallel');
    const t = scalar(parameters, 'endpoints');
    const switches = sizes.reduce((product, size) => product * size, 1);
    const links = sizes.map((size, d) => (parallel[d] * switches * (size - 1)) / 2);
    const cuts = sizes.map((size, d) => (parallel[d] * switches * size) / 4);
    const cut = Math.min(...cuts);
    const ports = t + sizes.reduce((sum, size, d) => sum + parallel[d] * (size - 1), 0);
    return {
      topology: 'hyperx',
      parameters,
      endpoints: t * switches,
      switches,
      switchSizes: [{ ports, count: switches }],
      radix: ports,
      links: countLinks([
        ['host', 'dac', t * switches],
        ['line', 'dac', links[0]],
        ['line', 'aoc', links.slice(1).reduce((sum, count) => sum + count, 0)],
      ]),
      diameter: diameterBehindSwitches(sizes.length),
      bisection: {
        links: cut,
        exactness: sizes[cuts.indexOf(cut)] % 2 === 0 ? 'upperBound' : 'estimate',
        relative: cut / ((t * switches) / 2),
      },
      kind: 'direct',
      regular: true,
      blocking: { nonBlocking: false, ratio: Math.max(1, (t * switches) / 2 / cut) },
    };
  },

  build(given): Network {
    const parameters = check(given);
    const sizes = list(parameters, 'sizes');
    const parallel = list(parameters, 'parallel');
    const t = scalar(parameters, 'endpoints');
    const count = sizes.reduce((product, size) => product * size, 1);
    const builder = new NetworkBuilder(`HyperX ${sizes.join('x')}, ${t} endpoints a switch`, t * count);
    const columns = sizes[0];
    const rows = count / columns;
    for (let s = 0; s < count; s++) {
      const [x, y] = [((s % columns) + 0.5) / columns, (Math.floor(s / columns) + 0.5) / rows];
      const vertex = builder.addSwitch(x, y);
      for (let i = 0; i < t; i++) {
        const angle = (2 * Math.PI * i) / t;
        builder.place(s * t + i, x + (0.3 / columns) * Math.cos(angle), y + (0.3 / rows) * Math.sin(angle));
        builder.addLink(s * t + i, vertex, 'host', 'dac');
      }
    }
    const first = t * count;
    let stride = 1;
    for (const [d, size] of sizes.entries()) {
      for (let s = 0; s < count; s++) {
        const c = Math.floor(s / stride) % size;
        for (let other = c + 1; other < size; other++) {
          for (let k = 0; k < parallel[d]; k++)
            builder.addLink(first + s, first + s + (other - c) * stride, 'line', d === 0 ? 'dac' : 'aoc');
        }
      }
      stride *= size;
    }
    return builder.build({ endpointsForward: false });
  },

  grow(given): GrowthStep {
    const parameters = check(given);
    const sizes = [...list(parameters, 'sizes')];
    sizes[sizes.indexOf(Math.min(...sizes))]++;
    return {
      parameters: { ...parameters, sizes },
      movedLinks: 0,
      keepsSwitches: true,
      description: 'one line of switches more; every switch of that dimension gets one more port',
    };
  },

  fit(endpoints, radix) {
    for (let size = 2; ; size++) {
      const t = Math.ceil(endpoints / (size * size));
      const ports = t + 2 * (size - 1);
      if (t <= size && ports <= radix) return { sizes: [Math.ceil(endpoints / t / size), size], endpoints: t, parallel: [1, 1] };
      if (2 * (size - 1) >= radix)
        throw new PlanRefusal(
          `a 2D HyperX of radix ${radix} with half bisection does not reach ${endpoints} endpoints`,
          `radix ${Math.ceil(3 * Math.cbrt(endpoints)) - 2}`,
        );
    }
  },
};

function check(given: TopologyParameters): TopologyParameters {
  const parameters = readParameters(hyperx, given);
  const sizes = list(parameters, 'sizes');
  const parallel = list(parameters, 'parallel');
  const full = parallel.length === 1 ? sizes.map(() => parallel[0]) : parallel;
  if (full.length !== sizes.length)
    throw new PlanRefusal(
      `hyperx: parallel has ${full.length} dimensions and sizes has ${sizes.length}`,
      sizes.map(() => 1).join('x'),
    );
  return { ...parameters, parallel: full };
}
