import assert from 'node:assert/strict';
import { test } from 'node:test';
import { networkCost } from './price.js';
import { parseTopology } from './registry.js';
import type { TopologyFigures } from './topology.js';

function figures(text: string): TopologyFigures {
  const { topology, parameters } = parseTopology(text);
  return topology.figures(parameters);
}

test('fat tree of 48-port switches: 27,648 hosts on 2,880 switches, 8.64 million at 3,000 each (Al-Fares 2008)', () => {
  const f = figures('fat-tree:radix=48');
  assert.equal(f.endpoints, 27_648);
  assert.equal(f.switches, 2_880);
  assert.equal(networkCost(f, 1, { boxPorts: 48, box: 3000, cable: { board: 0, dac: 0, aoc: 0 } }).money, 8_640_000);
  assert.deepEqual(f.diameter, { switchHops: 4, cables: 6, switches: 5 });
});

test('dragonfly sizes of the 2008 paper: 72 at radix 7, 1,056, 262,656 at radix 63', () => {
  assert.deepEqual([figures('dragonfly:p=2').endpoints, figures('dragonfly:p=2').radix], [72, 7]);
  assert.equal(figures('dragonfly:p=4,a=8,h=4').endpoints, 1056);
  assert.deepEqual([figures('dragonfly:p=16').endpoints, figures('dragonfly:p=16').radix], [262_656, 63]);
});

test('Slim Fly q=19: 722 routers of radix 44, 10,830 endpoints; the dragonfly beside it: 1,386 routers of radix 27, 9,702', () => {
  const f = figures('slim-fly:q=19');
  assert.deepEqual([f.switches, f.radix, f.endpoints], [722, 44, 10_830]);
  assert.equal(figures('slim-fly:q=5,p=1').switches, 7 ** 2 + 1);
  const d = figures('dragonfly:p=7');
  assert.deepEqual([d.switches, d.radix, d.endpoints], [1386, 27, 9702]);
});

test('HyperX 12x8 with 7 endpoints a switch: 672 nodes, 57.1 % bisection (Domke 2019)', () => {
  const f = figures('hyperx:sizes=12x8,endpoints=7');
  assert.equal(f.endpoints, 672);
  assert.equal(f.bisection.relative.toFixed(3), '0.571');
});

test('dragonfly+ of radix 36: 325 groups, 105,300 endpoints, where a balanced dragonfly of radix 35 has 26,406', () => {
  const f = figures('dragonfly-plus:p=18');
  assert.deepEqual([f.parameters['groups'], f.endpoints, f.radix], [325, 105_300, 36]);
  assert.equal(figures('dragonfly:p=9').endpoints, 26_406);
});

test('the sixteen cells of the Hamming mesh cost table (2022), to the printed digit', () => {
  const cells: [string, number, string][] = [
    ['leaf-spine:radix=64,leaves=32', 16, '25.3'],
    ['blocking-fat-tree:radix=64,down=42,leaves=25', 16, '17.6'],
    ['blocking-fat-tree:radix=64,down=51,leaves=21', 16, '13.2'],
    ['dragonfly:p=8,a=16,h=8,groups=8,perBox=2', 16, '27.9'],
    ['hamming-mesh:a=1,x=32', 4, '10.8'],
    ['hamming-mesh:a=2,x=16', 4, '5.4'],
    ['hamming-mesh:a=4,x=8', 4, '2.7'],
    ['torus:sizes=32x32,board=2x2', 4, '2.5'],
    ['fat-tree:radix=64,pods=16', 16, '680'],
    ['blocking-fat-tree:radix=64,down=42,levels=3,leaves=391', 16, '419'],
    ['blocking-fat-tree:radix=64,down=51,levels=3,leaves=322', 16, '271'],
    ['dragonfly:p=17,a=32,h=16,groups=30', 16, '429'],
    ['hamming-mesh:a=1,x=128', 4, '448'],
    ['hamming-mesh:a=2,x=64', 4, '224'],
    ['hamming-mesh:a=4,x=32', 4, '43.3'],
    ['torus:sizes=128x128,board=2x2', 4, '39.5'],
  ];
  for (const [text, planes, printed] of cells) {
    const money = networkCost(figures(text), planes).money / 1e6;
    assert.equal(money.toFixed(printed.includes('.') ? 1 : 0), printed, `${text}: ${money}`);
  }
});

test('diameters in cables as that table prints them', () => {
  const rows: [string, number][] = [
    ['leaf-spine:radix=64,leaves=32', 4],
    ['fat-tree:radix=64', 6],
    ['hamming-mesh:a=2,x=16', 4],
    ['hamming-mesh:a=2,x=64', 8],
    ['hamming-mesh:a=4,x=8', 8],
    ['hamming-mesh:a=4,x=32', 8],
    ['hamming-mesh:a=1,x=32', 4],
    ['hamming-mesh:a=1,x=128', 8],
    ['torus:sizes=32x32', 32],
    ['torus:sizes=128x128', 128],
  ];
  for (const [text, cables] of rows) assert.equal(figures(text).diameter.cables, cables, text);
});

test('Hamming mesh keeps 1/(2a) of full bisection', () => {
  assert.equal(figures('hamming-mesh:a=2,x=16').bisection.relative, 0.25);
  assert.equal(figures('hamming-mesh:a=4,x=8').bisection.relative, 0.125);
});

test('dragonfly keeps about half of full bisection when p = h', () => {
  const relative = figures('dragonfly:p=8').bisection.relative;
  assert.ok(Math.abs(relative - 0.5) < 0.01, String(relative));
});
