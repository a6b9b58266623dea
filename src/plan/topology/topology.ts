/**
 * What a topology is to the planner: a name, its parameters, closed forms, and a graph.
 *
 * The closed forms answer for any size at once; the graph is for simulation, drawing, and for proving the closed forms
 * on small sizes. Published tables disagree about diameters mostly because they count different things, so the three
 * counts are three fields:
 *
 * ```
 *   endpoint ──cable── switch ──cable── switch ──cable── switch ──cable── endpoint
 *                                 switchHops = 2   cables = 4   switches = 3
 * ```
 * Where the endpoint holds its own switch (ring, torus), there is no cable between the two: cables = switchHops.
 */
import { PlanRefusal, requireInteger } from '../refusal.js';
import type { CableClass, LinkRole, Network } from './network.js';

/** Parameters by name, as in `dragonfly:p=4,a=8,h=4`. */
export type TopologyParameters = Readonly<Record<string, number | readonly number[]>>;

/** One parameter of a topology: what it means and which integers it takes. */
export interface ParameterRule {
  readonly name: string;
  readonly meaning: string;
  /** Smallest legal value (of each element, for a list). */
  readonly minimum: number;
  /** Value when left out; required when absent. A function may derive it from the parameters before it. */
  readonly default?: number | readonly number[] | ((given: TopologyParameters) => number);
  /** A list of integers, written `8x8x4`. */
  readonly list?: boolean;
}

/** Longest minimal path, in three conventions. */
export interface Diameter {
  /** Links between forwarding elements on the longest minimal path. */
  readonly switchHops: number;
  /** Links from endpoint to endpoint, host cables included. */
  readonly cables: number;
  /** Forwarding elements passed. */
  readonly switches: number;
}

export interface Bisection {
  /** Links cut between balanced halves. */
  readonly links: number;
  /** `exact`: proven form; `estimate`: leading term; `upperBound`: no smaller cut is known. */
  readonly exactness: 'exact' | 'estimate' | 'upperBound';
  /** Cut links over what half the endpoints can inject: 1 is full bisection. */
  readonly relative: number;
}

/** What a network of given parameters is: size, diameter, bisection, blocking, cables. */
export interface TopologyFigures {
  readonly topology: string;
  readonly parameters: TopologyParameters;
  readonly endpoints: number;
  /** Forwarding elements, those inside endpoints included. */
  readonly switches: number;

  /** Discrete switches by ports in use; switches inside endpoints do not appear, they come with the endpoint. */
  readonly switchSizes: readonly { readonly ports: number; readonly count: number }[];
  /** Ports of the largest switch in use. */
  readonly radix: number;
  readonly links: {
    readonly total: number;
    /** Endpoint to switch. */
    readonly host: number;
    /** Between forwarding elements. */
    readonly fabric: number;
    readonly byCable: Readonly<Record<CableClass, number>>;
    readonly byRole: Readonly<Partial<Record<LinkRole, number>>>;
  };
  readonly diameter: Diameter;
  readonly bisection: Bisection;
  /** `direct`: every switch has endpoints; `indirect`: some have none; `hybrid`: endpoints forward and switches stand between. */
  readonly kind: 'direct' | 'indirect' | 'hybrid';
  /** All discrete switches use equally many ports, and so do all endpoints. */
  readonly regular: boolean;
  /** Non-blocking (rearrangeable): every permutation of endpoints runs at full rate. Ratio: offered over carried, 1 when non-blocking. */
  readonly blocking: { readonly nonBlocking: boolean; readonly ratio: number };
}

/** The smallest legal growth. */
export interface GrowthStep {
  readonly parameters: TopologyParameters;
  /** Existing cables that must be moved. */
  readonly movedLinks: number;
  /** Whether the switches bought before can stay. */
  readonly keepsSwitches: boolean;
  /** What happens, in words. */
  readonly description: string;
}

export interface Topology {
  readonly name: string;
  /** One line: what it is and where it is used. */
  readonly summary: string;
  readonly parameters: readonly ParameterRule[];
  /** Closed forms. Throws `PlanRefusal` for illegal parameters. */
  figures(parameters: TopologyParameters): TopologyFigures;
  /** The graph. Throws `PlanRefusal` for illegal parameters. */
  build(parameters: TopologyParameters): Network;
  /** The next size up. */
  grow(parameters: TopologyParameters): GrowthStep;
  /** Parameters of the smallest instance with at least `endpoints` endpoints on switches of at most `radix` ports, or the reason there is none. */
  fit(endpoints: number, radix: number): TopologyParameters;
}

/** Checks `given` against the rules: unknown names, wrong types and illegal values are refused, defaults filled in. */
export function readParameters(topology: Pick<Topology, 'name' | 'parameters'>, given: TopologyParameters): TopologyParameters {
  const rules = topology.parameters;
  for (const name of Object.keys(given)) {
    if (!rules.some((rule) => rule.name === name)) {
      throw new PlanRefusal(`${topology.name} has no parameter "${name}"; it has ${rules.map((rule) => rule.name).join(', ')}`);
    }
  }
  const result: Record<string, number | readonly number[]> = {};
  for (const rule of rules) {
    let value = given[rule.name];
    if (value === undefined) {
      if (rule.default === undefined) throw new PlanRefusal(`${topology.name} needs ${rule.name} (${rule.meaning})`);
      value = typeof rule.default === 'function' ? rule.default(result) : rule.default;
    }
    const what = `${topology.name}: ${rule.name} (${rule.meaning})`;
    if (rule.list) {
      const list = typeof value === 'number' ? [value] : value;
      for (const element of list) requireInteger(what, element, rule.minimum);
      result[rule.name] = list;
    } else {
      if (typeof value !== 'number') throw new PlanRefusal(`${what} takes one number, not a list`, String(value[0]));
      result[rule.name] = requireInteger(what, value, rule.minimum);
    }
  }
  return result;
}

/** A scalar parameter after `readParameters`. */
export function scalar(parameters: TopologyParameters, name: string): number {
  return parameters[name] as number;
}

/** A list parameter after `readParameters`. */
export function list(parameters: TopologyParameters, name: string): readonly number[] {
  return parameters[name] as readonly number[];
}

/** Assembles the link counts from (role, cable, count) rows. */
export function countLinks(rows: readonly (readonly [LinkRole, CableClass, number])[]): TopologyFigures['links'] {
  const byCable: Record<CableClass, number> = { board: 0, dac: 0, aoc: 0 };
  const byRole: Partial<Record<LinkRole, number>> = {};
  let total = 0;
  for (const [role, cable, count] of rows) {
    byCable[cable] += count;
    byRole[role] = (byRole[role] ?? 0) + count;
    total += count;
  }
  const host = byRole.host ?? 0;
  return { total, host, fabric: total - host, byCable, byRole };
}

/** Diameter where endpoints hang on switches by host cables. */
export function diameterBehindSwitches(switchHops: number): Diameter {
  return { switchHops, cables: switchHops + 2, switches: switchHops + 1 };
}

/** Diameter where endpoints hold their own switch. */
export function diameterOfNodes(hops: number): Diameter {
  return { switchHops: hops, cables: hops, switches: hops + 1 };
}
