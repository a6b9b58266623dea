/**
 * What a network costs: switch boxes and cables, per plane.
 *
 * money = boxes x price + sum over cable classes of count x price, times the planes. A box has a fixed number of ports; small switches share
 * a box when several fit into one. The default prices and port count are those with which the Hamming mesh paper compares networks.
 */

import { PlanRefusal, requireNumber } from '../refusal.js';
import type { CableClass } from './network.js';
import type { Topology, TopologyFigures, TopologyParameters } from './topology.js';

/** What boxes and cables cost. */
export interface PriceTable {
  /** Ports of a switch box. Default 64. */
  readonly boxPorts: number;
  /** Money per switch box. Default 14,280. */
  readonly box: number;
  /** Money per cable of each class. Default board 0, dac 272, aoc 603. */
  readonly cable: Readonly<Record<CableClass, number>>;
}

const defaultPrices: PriceTable = { boxPorts: 64, box: 14_280, cable: { board: 0, dac: 272, aoc: 603 } };

/** What a network costs, in the money of the price table. */
export interface NetworkCost {
  readonly boxes: number;
  readonly boxMoney: number;
  readonly cableMoney: number;
  readonly money: number;
  readonly moneyPerEndpoint: number;
}

/** Cost of `planes` equal copies of the network. Refuses switches with more ports than a box has. */
export function networkCost(figures: TopologyFigures, planes = 1, prices: PriceTable = defaultPrices): NetworkCost {
  requireNumber('planes', planes, 1);
  let boxes = 0;
  for (const { ports, count } of figures.switchSizes) {
    if (ports > prices.boxPorts) {
      throw new PlanRefusal(
        `${figures.topology} needs switches of ${ports} ports, and the price table has boxes of ${prices.boxPorts}`,
        `boxPorts ${ports}`,
      );
    }
    boxes += Math.ceil(count / Math.floor(prices.boxPorts / ports));
  }
  const { board, dac, aoc } = figures.links.byCable;
  const boxMoney = planes * boxes * prices.box;
  const cableMoney = planes * (board * prices.cable.board + dac * prices.cable.dac + aoc * prices.cable.aoc);
  const money = boxMoney + cableMoney;
  return { boxes: planes * boxes, boxMoney, cableMoney, money, moneyPerEndpoint: money / figures.endpoints };
}

/** The next larger network of a kind, and what it costs beyond the present one. */
export interface GrowthCost {
  readonly parameters: TopologyParameters;
  readonly description: string;
  readonly addedEndpoints: number;
  readonly addedSwitches: number;
  readonly addedLinks: number;
  readonly movedLinks: number;
  /** What the step costs: the difference, or the whole of the new network where old switches cannot stay. */
  readonly money: number;
  readonly moneyPerAddedEndpoint: number;
}

/** The next expansion step of a topology and what it costs. */
export function growthCost(
  topology: Topology,
  parameters: TopologyParameters,
  planes = 1,
  prices: PriceTable = defaultPrices,
): GrowthCost {
  const now = topology.figures(parameters);
  const step = topology.grow(parameters);
  const next = topology.figures(step.parameters);
  const before = networkCost(now, planes, prices).money;
  const roomier = { ...prices, boxPorts: Math.max(prices.boxPorts, next.radix) };
  const after = networkCost(next, planes, roomier).money;
  const money = step.keepsSwitches ? after - before : after;
  const addedEndpoints = next.endpoints - now.endpoints;
  return {
    parameters: step.parameters,
    description: step.description,
    addedEndpoints,
    addedSwitches: next.switches - now.switches,
    addedLinks: next.links.total - now.links.total,
    movedLinks: step.movedLinks * planes,
    money,
    moneyPerAddedEndpoint: money / addedEndpoints,
  };
}
