/**
 * Hamming mesh (HxMesh): boards of a x b accelerators joined as a mesh by traces, and boards in a grid whose rows and columns are joined by
 * switches. Most traffic of training is between neighbours, so the cheap mesh carries it; the switched lines carry the rest.
 *
 * ```
 *   one board (a=2, b=2)          a line of accelerators across all boards of a row ends in one switch (or a small fat tree)
 *    │  │
 *   ─o──o─                        y*b row lines of 2x ports, x*a column lines of 2y ports
 *   ─o──o─                        accelerators forward traffic that passes their board
 *    │  │
 * ```
 * a = b = 1 is what the HxMesh paper calls a 2D HyperX. One plane is described; a machine has several equal planes.
 * `radix` bounds a line switch: longer lines become two-level trees (L = 2). Row cables are copper, column cables optics. Published: Hoefler et al. 2022.
 */
import { PlanRefusal } from '../refusal.js';
import { type Network, NetworkBuilder } from './network.js';
import { countLinks, type GrowthStep, readParameters, scalar, type Topology, type TopologyParameters } from './topology.js';

export const hammingMesh: Topology = {
  name: 'hamming-mesh',
  summary: 'boards of accelerators in a switched grid (HxMesh); cheap neighbours, 1/(2a) of full bisection',
  parameters: [
    { name: 'a', meaning: 'accelerators across a board', minimum: 1 },
    { name: 'b', meaning: 'accelerators down a board', minimum: 1, default: (given) => given['a'] as number },
    { name: 'x', meaning: 'boards across', minimum: 2 },
    { name: 'y', meaning: 'boards down', minimum: 2, default: (given) => given['x'] as number },
    { name: 'radix', meaning: 'ports per line switch', minimum: 4, default: 64 },
  ],

  figures(given) {
    const parameters = check(given);
    const [a, b, x, y, radix] = ['a', 'b', 'x', 'y', 'radix'].map((name) => scalar(parameters, name));
    const n = a * b * x * y;
    const rows = line(2 * x, radix);
    const columns = line(2 * y, radix);
    const cut = Math.min(a, b) * x * y;
    const cables = 2 * rows.levels + 2 * Math.floor((a - 1) / 2) + 2 * columns.levels + 2 * Math.floor((b - 1) / 2);
    const sizes = [
      ...rows.sizes.map((s) => ({ ports: s.ports, count: s.count * y * b })),
      ...columns.sizes.map((s) => ({ ports: s.ports, count: s.count * x * a })),
    ];
    const switches = sizes.reduce((sum, s) => sum + s.count, 0);
    return {
      topology: 'hamming-mesh',
      parameters,
      endpoints: n,
      switches,
      switchSizes: sizes,
      radix: Math.max(...sizes.map((s) => s.ports)),
      links: countLinks([
        ['mesh', 'board', x * y * ((a - 1) * b + (b - 1) * a)],
        ['line', 'dac', 2 * x * y * b],
        ['line', 'aoc', 2 * x * y * a],
        ['up', 'aoc', rows.inner * y * b + columns.inner * x * a],
      ]),
      diameter: { switchHops: cables, cables, switches: cables + 1 },
      bisection: { links: cut, exactness: x % 2 === 0 && y % 2 === 0 ? 'exact' : 'estimate', relative: cut / (2 * n) },
      kind: 'hybrid',
      regular: sizes.every((s) => s.ports === sizes[0].ports),
      blocking: { nonBlocking: false, ratio: (2 * n) / cut },
    };
  },

  build(given): Network {
    const parameters = check(given);
    const [a, b, x, y, radix] = ['a', 'b', 'x', 'y', 'radix'].map((name) => scalar(parameters, name));
    const [width, height] = [a * x, b * y];
    const builder = new NetworkBuilder(`Hx${a === b ? a : `${a}x${b}`}Mesh ${x}x${y} boards`, width * height);
    const at = (column: number, row: number): number => row * width + column;
    const left = (c: number): number => 0.1 + (0.88 * (Math.floor(c / a) + 0.15 + (0.7 * ((c % a) + 0.5)) / a)) / x;
    const top = (r: number): number => 0.1 + (0.88 * (Math.floor(r / b) + 0.15 + (0.7 * ((r % b) + 0.5)) / b)) / y;
    for (let r = 0; r < height; r++) {
      for (let c = 0; c < width; c++) {
        builder.place(at(c, r), left(c), top(r));
        if ((c + 1) % a !== 0) builder.addLink(at(c, r), at(c + 1, r), 'mesh', 'board');
        if ((r + 1) % b !== 0) builder.addLink(at(c, r), at(c, r + 1), 'mesh', 'board');
      }
    }
    for (let r = 0; r < height; r++) {
      const ends: number[] = [];
      for (let board = 0; board < x; board++) ends.push(at(board * a, r), at(board * a + a - 1, r));
      addLine(builder, ends, radix, 'dac', [0.04, top(r)]);
    }
    for (let c = 0; c < width; c++) {
      const ends: number[] = [];
      for (let board = 0; board < y; board++) ends.push(at(c, board * b), at(c, board * b + b - 1));
      addLine(builder, ends, radix, 'aoc', [left(c), 0.04]);
    }
    return builder.build({ endpointsForward: true });
  },

  grow(given): GrowthStep {
    const parameters = check(given);
    const [a, b, x, y, radix] = ['a', 'b', 'x', 'y', 'radix'].map((name) => scalar(parameters, name));
    const longer = 2 * (Math.min(x, y) + 1);
    const full = longer > (radix * radix) / 2;
    const next = { a, b, x: x <= y ? x + 1 : x, y: x <= y ? y : y + 1, radix: full ? radix + 2 : radix };
    const restructured = full || line(longer - 2, radix).levels !== line(longer, radix).levels;
    return {
      parameters: next,
      movedLinks: restructured ? 2 * x * y * (x <= y ? b : a) : 0,
      keepsSwitches: !full,
      description: full
        ? `lines are full: line switches of ${radix + 2} ports throughout`
        : restructured
          ? 'line switches are full: a second level in every line'
          : 'one line of boards more; each line it joins gets two cables per board',
    };
  },

  fit(endpoints, radix) {
    const x = Math.max(2, Math.ceil(Math.sqrt(endpoints / 4)));
    const y = Math.max(2, Math.ceil(endpoints / 4 / x));
    if (2 * x > (radix * radix) / 2)
      throw new PlanRefusal(
        `Hx2Mesh: a line of ${2 * x} ports needs more than two levels of radix ${radix}`,
        `radix ${Math.ceil(Math.sqrt(4 * x) / 2) * 2}`,
      );
    return { a: 2, b: 2, x, y, radix };
  },
};

/** The switches of one line of `ports` ports: one switch, or a two-level fat tree. */
function line(ports: number, radix: number): { levels: number; inner: number; sizes: { ports: number; count: number }[] } {
  if (ports <= radix) return { levels: 1, inner: 0, sizes: [{ ports, count: 1 }] };
  const half = radix / 2;
  const leaves = Math.ceil(ports / half);
  const spines = Math.ceil((leaves * half) / radix);
  return {
    levels: 2,
    inner: leaves * half,
    sizes: [
      { ports: radix, count: leaves },
      { ports: Math.ceil((leaves * half) / spines), count: spines },
    ],
  };
}

function addLine(
  builder: NetworkBuilder,
  ends: readonly number[],
  radix: number,
  cable: 'dac' | 'aoc',
  place: readonly [number, number],
): void {
  if (ends.length <= radix) {
    const hub = builder.addSwitch(place[0], place[1]);
    for (const end of ends) builder.addLink(end, hub, 'line', cable);
    return;
  }
  const half = radix / 2;
  const leaves = Math.ceil(ends.length / half);
  const spines = Math.ceil((leaves * half) / radix);
  const spine = Array.from({ length: spines }, () => builder.addSwitch(place[0] * 0.4, place[1] * 0.4));
  for (let l = 0; l < leaves; l++) {
    const leaf = builder.addSwitch(place[0], place[1]);
    for (const end of ends.slice(l * half, (l + 1) * half)) builder.addLink(end, leaf, 'line', cable);
    for (let i = 0; i < half; i++) builder.addLink(leaf, spine[(l * half + i) % spines], 'up', 'aoc');
  }
}

function check(given: TopologyParameters): TopologyParameters {
  const parameters = readParameters(hammingMesh, given);
  const radix = scalar(parameters, 'radix');
  if (radix % 2 === 1) throw new PlanRefusal(`hamming-mesh: radix ${radix} is odd`, String(radix + 1));
  const longest = 2 * Math.max(scalar(parameters, 'x'), scalar(parameters, 'y'));
  if (longest > (radix * radix) / 2)
    throw new PlanRefusal(
      `hamming-mesh: a line of ${longest} ports does not fit two levels of radix ${radix}`,
      `radix=${Math.ceil(Math.sqrt(2 * longest) / 2) * 2}`,
    );
  return parameters;
}
