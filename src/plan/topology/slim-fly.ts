/**
 * Slim Fly: the McKay-Miller-Siran graphs as a network. Diameter two with close to the largest number of routers that diameter two allows
 * (q = 5 is the Hoffman-Singleton graph, which meets the Moore bound), so it needs fewer routers and cables than anything else here.
 *
 * Routers are (0, x, y) and (1, m, c) over GF(q), q = 4w + d with d in {-1, 0, 1}:
 *
 * ```
 *   (0,x,y) - (0,x,y')   when y - y' is in X      (X, X': about half of the non-zero elements each, closed under negation)
 *   (1,m,c) - (1,m,c')   when c - c' is in X'
 *   (0,x,y) - (1,m,c)    when y = m x + c
 * ```
 * Published: Besta and Hoefler 2014. The bisection here is an estimate, about a third of the endpoints.
 */
import { PlanRefusal } from '../refusal.js';
import { galoisField, primePower } from './galois-field.js';
import { type Network, NetworkBuilder } from './network.js';
import {
  countLinks,
  diameterBehindSwitches,
  type GrowthStep,
  readParameters,
  scalar,
  type Topology,
  type TopologyParameters,
} from './topology.js';

export const slimFly: Topology = {
  name: 'slim-fly',
  summary: 'graphs of diameter two near the theoretical limit; fewest switches, sizes only at prime powers',
  parameters: [
    { name: 'q', meaning: 'prime power, not of the form 4w + 2', minimum: 4 },
    {
      name: 'p',
      meaning: 'endpoints per router',
      minimum: 1,
      default: (given) => Math.ceil(networkRadix(given['q'] as number) / 2),
    },
  ],

  figures(given) {
    const parameters = check(given);
    const q = scalar(parameters, 'q');
    const p = scalar(parameters, 'p');
    const ports = networkRadix(q);
    const routers = 2 * q * q;
    const n = routers * p;
    return {
      topology: 'slim-fly',
      parameters,
      endpoints: n,
      switches: routers,
      switchSizes: [{ ports: ports + p, count: routers }],
      radix: ports + p,
      links: countLinks([
        ['host', 'dac', n],
        ['local', 'dac', (routers * (ports - q)) / 2],
        ['line', 'aoc', q ** 3],
      ]),
      diameter: diameterBehindSwitches(2),
      bisection: { links: n / 3, exactness: 'estimate', relative: 2 / 3 },
      kind: 'direct',
      regular: true,
      blocking: { nonBlocking: false, ratio: 1.5 },
    };
  },

  build(given): Network {
    const parameters = check(given);
    const q = scalar(parameters, 'q');
    const p = scalar(parameters, 'p');
    const field = galoisField(q);
    const [even, odd] = generatorSets(q, field.power);
    const routers = 2 * q * q;
    const builder = new NetworkBuilder(`Slim Fly q=${q}`, routers * p);
    for (let r = 0; r < routers; r++) {
      const [side, x, y] = [Math.floor(r / (q * q)), Math.floor(r / q) % q, r % q];
      const left = 0.03 + side * 0.5 + (0.44 * (x + 0.5)) / q;
      const top = 0.03 + (0.94 * (y + 0.5)) / q;
      const vertex = builder.addSwitch(left, top);
      for (let i = 0; i < p; i++) {
        const angle = (2 * Math.PI * i) / p;
        builder.place(r * p + i, left + (0.15 / q) * Math.cos(angle), top + (0.3 / q) * Math.sin(angle));
        builder.addLink(r * p + i, vertex, 'host', 'dac');
      }
    }
    const at = (side: number, x: number, y: number): number => routers * p + side * q * q + x * q + y;
    for (const [side, set] of [even, odd].entries()) {
      const members = new Set(set);
      for (let x = 0; x < q; x++) {
        for (let y = 0; y < q; y++) {
          for (let z = y + 1; z < q; z++)
            if (members.has(field.subtract(y, z))) builder.addLink(at(side, x, y), at(side, x, z), 'local', 'dac');
        }
      }
    }
    for (let x = 0; x < q; x++) {
      for (let m = 0; m < q; m++) {
        for (let c = 0; c < q; c++) builder.addLink(at(0, x, field.add(field.multiply(m, x), c)), at(1, m, c), 'line', 'aoc');
      }
    }
    return builder.build({ endpointsForward: false });
  },

  grow(given): GrowthStep {
    const q = scalar(check(given), 'q');
    let next = q + 1;
    while (!legal(next)) next++;
    return {
      parameters: { q: next },
      movedLinks: q ** 3,
      keepsSwitches: false,
      description: `the next graph is q = ${next}: every router gets more ports and new neighbours`,
    };
  },

  fit(endpoints, radix) {
    for (let q = 4; ; q++) {
      if (!legal(q)) continue;
      const ports = networkRadix(q);
      const p = Math.ceil(ports / 2);
      if (ports + p > radix)
        throw new PlanRefusal(
          `a Slim Fly of radix ${radix} does not reach ${endpoints} endpoints`,
          `radix ${Math.ceil(2.25 * Math.cbrt((2 * endpoints) / 3))}`,
        );
      if (2 * q * q * p >= endpoints) return { q, p };
    }
  },
};

/** Ports of a router towards other routers: (3q - d) / 2. */
function networkRadix(q: number): number {
  const d = q % 4 === 3 ? -1 : q % 4;
  return (3 * q - d) / 2;
}

function legal(q: number): boolean {
  return q >= 4 && q % 4 !== 2 && primePower(q) !== undefined;
}

function check(given: TopologyParameters): TopologyParameters {
  const q = given['q'];
  if (typeof q === 'number' && Number.isInteger(q) && q >= 4 && !legal(q)) {
    let near = q;
    for (let away = 1; !legal(near); away++) near = legal(q - away) ? q - away : legal(q + away) ? q + away : near;
    throw new PlanRefusal(`slim-fly: q = ${q} is not a prime power of the form 4w - 1, 4w or 4w + 1`, `q=${near}`);
  }
  return readParameters(slimFly, given);
}

/** X and X' as sets of field elements, from the powers of a generator. */
function generatorSets(q: number, power: readonly number[]): [number[], number[]] {
  const pick = (exponents: readonly number[]): number[] => exponents.map((e) => power[e % (q - 1)]);
  const from = (start: number, end: number): number[] =>
    Array.from({ length: Math.floor((end - start) / 2) + 1 }, (_, i) => start + 2 * i);
  if (q % 4 === 1) return [pick(from(0, q - 3)), pick(from(1, q - 2))];
  if (q % 4 === 0) return [pick(from(0, q - 2)), pick(from(1, q - 1))];
  const w = (q + 1) / 4;
  return [pick([...from(0, 2 * w - 2), ...from(2 * w - 1, 4 * w - 3)]), pick([...from(1, 2 * w - 1), ...from(2 * w, 4 * w - 2)])];
}
