/**
 * Values known from the literature or recomputed from its formulas, and what the planner says. Both as printed text: equal means equal to the printed digit.
 */
import { latencyBudget } from '../../src/plan/cost/latency-budget.js';
import { packetBudget } from '../../src/plan/cost/packet-budget.js';
import { pollingEnergy } from '../../src/plan/cost/polling-energy.js';
import { linkNamed, rendezvousThreshold, type ThresholdOptions } from '../../src/plan/cost/rendezvous-threshold.js';
import { networkCost } from '../../src/plan/topology/price.js';
import { parseTopology } from '../../src/plan/topology/registry.js';
import type { TopologyFigures } from '../../src/plan/topology/topology.js';
import { a800Study } from '../../src/plan/train/a800-study.js';
import { stateBytes } from '../../src/plan/train/memory.js';

export interface KnownValue {
  readonly group: string;
  readonly what: string;
  readonly expected: string;
  readonly ours: string;
}

export function knownValues(): KnownValue[] {
  return [...sizes(), ...costs(), ...diameters(), ...thresholds(), ...training(), ...budgets()];
}

function figures(text: string): TopologyFigures {
  const { topology, parameters } = parseTopology(text);
  return topology.figures(parameters);
}

function sizes(): KnownValue[] {
  const group = 'Topologies';
  const row = (what: string, expected: string, ours: string): KnownValue => ({ group, what, expected, ours });
  const fatTree = figures('fat-tree:radix=48');
  const flatPrice = networkCost(fatTree, 1, { boxPorts: 48, box: 3000, cable: { board: 0, dac: 0, aoc: 0 } });
  const slim = figures('slim-fly:q=19');
  const beside = figures('dragonfly:p=7');
  const plus = figures('dragonfly-plus:p=18');
  return [
    row(
      'fat tree of 48-port switches: hosts, switches (Al-Fares 2008)',
      '27648, 2880',
      `${fatTree.endpoints}, ${fatTree.switches}`,
    ),
    row('its price at 3,000 a switch, millions', '8.64', (flatPrice.money / 1e6).toFixed(2)),
    row(
      'dragonfly p=2: endpoints, radix (Kim 2008)',
      '72, 7',
      `${figures('dragonfly:p=2').endpoints}, ${figures('dragonfly:p=2').radix}`,
    ),
    row('dragonfly p=4, a=8, h=4: endpoints', '1056', String(figures('dragonfly:p=4,a=8,h=4').endpoints)),
    row(
      'dragonfly p=16: endpoints, radix',
      '262656, 63',
      `${figures('dragonfly:p=16').endpoints}, ${figures('dragonfly:p=16').radix}`,
    ),
    row(
      'Slim Fly q=19: routers, radix, endpoints (2014)',
      '722, 44, 10830',
      `${slim.switches}, ${slim.radix}, ${slim.endpoints}`,
    ),
    row('the dragonfly beside it', '1386, 27, 9702', `${beside.switches}, ${beside.radix}, ${beside.endpoints}`),
    row('Slim Fly q=5 is the Hoffman-Singleton graph: routers', '50', String(figures('slim-fly:q=5,p=1').switches)),
    row(
      'HyperX 12x8, 7 a switch: nodes, relative bisection',
      '672, 57.1 %',
      `${figures('hyperx:sizes=12x8,endpoints=7').endpoints}, ${(figures('hyperx:sizes=12x8,endpoints=7').bisection.relative * 100).toFixed(1)} %`,
    ),
    row(
      'dragonfly+ of radix 36: groups, endpoints (2017)',
      '325, 105300',
      `${String(plus.parameters['groups'])}, ${plus.endpoints}`,
    ),
    row('balanced dragonfly of radix 35: endpoints', '26406', String(figures('dragonfly:p=9').endpoints)),
    row(
      'Hx2Mesh, Hx4Mesh: share of full bisection (2022)',
      '25 %, 12.5 %',
      `${figures('hamming-mesh:a=2,x=16').bisection.relative * 100} %, ${figures('hamming-mesh:a=4,x=8').bisection.relative * 100} %`,
    ),
  ];
}

function costs(): KnownValue[] {
  const cells: [string, string, number, string][] = [
    ['1K: non-blocking fat tree', 'leaf-spine:radix=64,leaves=32', 16, '25.3'],
    ['1K: 50 % tapered', 'blocking-fat-tree:radix=64,down=42,leaves=25', 16, '17.6'],
    ['1K: 75 % tapered', 'blocking-fat-tree:radix=64,down=51,leaves=21', 16, '13.2'],
    ['1K: dragonfly', 'dragonfly:p=8,a=16,h=8,groups=8,perBox=2', 16, '27.9'],
    ['1K: 2D HyperX', 'hamming-mesh:a=1,x=32', 4, '10.8'],
    ['1K: Hx2Mesh', 'hamming-mesh:a=2,x=16', 4, '5.4'],
    ['1K: Hx4Mesh', 'hamming-mesh:a=4,x=8', 4, '2.7'],
    ['1K: 2D torus', 'torus:sizes=32x32,board=2x2', 4, '2.5'],
    ['16K: non-blocking fat tree', 'fat-tree:radix=64,pods=16', 16, '680'],
    ['16K: 50 % tapered', 'blocking-fat-tree:radix=64,down=42,levels=3,leaves=391', 16, '419'],
    ['16K: 75 % tapered', 'blocking-fat-tree:radix=64,down=51,levels=3,leaves=322', 16, '271'],
    ['16K: dragonfly', 'dragonfly:p=17,a=32,h=16,groups=30', 16, '429'],
    ['16K: 2D HyperX', 'hamming-mesh:a=1,x=128', 4, '448'],
    ['16K: Hx2Mesh', 'hamming-mesh:a=2,x=64', 4, '224'],
    ['16K: Hx4Mesh', 'hamming-mesh:a=4,x=32', 4, '43.3'],
    ['16K: 2D torus', 'torus:sizes=128x128,board=2x2', 4, '39.5'],
  ];
  return cells.map(([what, text, planes, expected]) => {
    const digits = expected.includes('.') ? 1 : 0;
    return {
      group: 'Price, millions, of networks of about 1K and 16K accelerators',
      what,
      expected,
      ours: (networkCost(figures(text), planes).money / 1e6).toFixed(digits),
    };
  });
}

function diameters(): KnownValue[] {
  const pairs: [string, string, string, string][] = [
    ['fat tree', 'leaf-spine:radix=64,leaves=32', 'fat-tree:radix=64', '4, 6'],
    ['Hx2Mesh', 'hamming-mesh:a=2,x=16', 'hamming-mesh:a=2,x=64', '4, 8'],
    ['Hx4Mesh', 'hamming-mesh:a=4,x=8', 'hamming-mesh:a=4,x=32', '8, 8'],
    ['2D HyperX', 'hamming-mesh:a=1,x=32', 'hamming-mesh:a=1,x=128', '4, 8'],
    ['2D torus', 'torus:sizes=32x32', 'torus:sizes=128x128', '32, 128'],
  ];
  return pairs.map(([what, small, large, expected]) => ({
    group: 'Diameter in cables at 1K, 16K',
    what,
    expected,
    ours: `${figures(small).diameter.cables}, ${figures(large).diameter.cables}`,
  }));
}

function thresholds(): KnownValue[] {
  const cold: ThresholdOptions = { registrationCache: false };
  const cases: [string, string, ThresholdOptions, string][] = [
    ['EDR, registration cache', 'edr', {}, '29.4'],
    ['HDR, registration cache', 'hdr', {}, '20.1'],
    ['NDR, registration cache', 'ndr', {}, '17.4'],
    ['EDR, no cache', 'edr', cold, '686'],
    ['HDR, no cache', 'hdr', cold, '275'],
    ['NDR, no cache', 'ndr', cold, '213'],
    ['HDR, no cache, second send', 'hdr', { ...cold, scheme: 'am' }, '18.3'],
    ['FDR, no cache', 'fdr', cold, 'Infinity'],
    ['EDR, copies at 7000 MiB/s', 'edr', { copyBytesPerSecond: 7000 * 2 ** 20 }, '43.9'],
  ];
  return cases.map(([what, link, options, expected]) => ({
    group: "Rendezvous threshold, KB, by UCX's formula and default constants",
    what,
    expected,
    ours: (rendezvousThreshold(linkNamed(link), options).thresholdBytes / 1e3).toPrecision(3),
  }));
}

function training(): KnownValue[] {
  const study = a800Study();
  const loose = a800Study({ linkEfficiency: 0.8 });
  const zero = ([0, 1, 2, 3] as const)
    .map((stage) => (stateBytes(7.5e9, stage, 64) / 1e9).toFixed(stage === 0 ? 0 : 1))
    .join(', ');
  const binds = (index: number): string => study.cases[index].devices.map((d) => (d.binds ? 'binds' : 'passes')).join(', ');
  const row = (what: string, expected: string, ours: string): KnownValue => ({ group: 'Training', what, expected, ours });
  return [
    row('ZeRO stages 0 to 3, 7.5 billion parameters on 64 ranks, GB', '120, 31.4, 16.6, 1.9', zero),
    row('A100, A800 against nominal NICs (350 GB/s needed)', 'binds, binds', binds(0)),
    row('A100, A800 against measured NICs (280 GB/s needed)', 'passes, binds', binds(1)),
    row(
      'GPT-3 layer on A100, A800, ms',
      '6.70, 6.99',
      study.layer.devices.map((d) => (d.totalSeconds * 1e3).toFixed(2)).join(', '),
    ),
    row(
      'slower by, and at 80 % link efficiency',
      '4.4 %, 5.4 %',
      `${(study.layer.slowdown * 100).toFixed(1)} %, ${(loose.layer.slowdown * 100).toFixed(1)} %`,
    ),
  ];
}

function budgets(): KnownValue[] {
  const row = (what: string, expected: string, ours: string): KnownValue => ({ group: 'Budgets', what, expected, ours });
  const write = latencyBudget();
  const energy = pollingEnergy({ eventsPerSecond: 1000 });
  const slow = packetBudget({ bitsPerSecond: 400e9 });
  const fast = packetBudget({ bitsPerSecond: 1.6e12 });
  const small = packetBudget({ bitsPerSecond: 10e9, packetBytes: 64, framingBytes: 20 });
  return [
    row('WRITE and its completion, us', '2 to 5', `${(write.lowNs / 1e3).toFixed(0)} to ${(write.highNs / 1e3).toFixed(0)}`),
    row('polling core, NIC, W', '4.4, 3.8', `${energy.pollingWatts.toFixed(1)}, ${energy.nicWatts}`),
    row(
      'packets of 1500 B at 400 Gb/s, 1.6 Tb/s, millions a second',
      '33, 133',
      `${Math.round(slow.packetsPerSecond / 1e6)}, ${Math.round(fast.packetsPerSecond / 1e6)}`,
    ),
    row('nanoseconds for each', '30, 7.5', `${slow.nsPerPacket}, ${fast.nsPerPacket}`),
    row('64 B packets at 10 Gb/s, millions a second', '14.88', (small.packetsPerSecond / 1e6).toFixed(2)),
  ];
}
