import assert from 'node:assert/strict';
import { test } from 'node:test';
import { linkRoles, walkedDiameter } from '../topology/network.js';
import { parseTopology } from '../topology/registry.js';
import { checkDeadlock } from './deadlock.js';
import { makeRouter, type Routing } from './router.js';

function check(text: string, routing: Routing) {
  const { topology, parameters } = parseTopology(text);
  const network = topology.build(parameters);
  return checkDeadlock(network, makeRouter(network, routing));
}

test('up-down routing in trees and dimension order on meshes need one virtual channel', () => {
  for (const text of ['tree:k=2,depth=3', 'leaf-spine:radix=4', 'fat-tree:radix=4', 'mesh:rows=4', 'chain:n=5']) {
    for (const routing of ['minimal', 'ecmp'] as const) {
      const report = check(text, routing);
      assert.deepEqual([report.freeWithOneChannel, report.virtualChannels], [true, 1], `${text} ${routing}`);
    }
  }
});

test('rings and tori lock up on one virtual channel and are free with a dateline and two', () => {
  for (const text of ['ring:n=6', 'torus:sizes=5x5', 'torus3d:sizes=4x4x4']) {
    const report = check(text, 'minimal');
    assert.equal(report.freeWithOneChannel, false, text);
    assert.ok(report.cycle.length >= 4, text);
    assert.deepEqual([report.rule, report.virtualChannels], ['dateline', 2], text);
  }
});

test('dragonflies need two virtual channels for minimal routing and three for Valiant', () => {
  const minimal = check('dragonfly:p=1,a=4,h=2', 'ecmp');
  assert.equal(minimal.freeWithOneChannel, false);
  assert.deepEqual([minimal.rule, minimal.virtualChannels], ['after-global', 2]);
  const valiant = check('dragonfly:p=1,a=2,h=1', 'valiant');
  assert.equal(valiant.freeWithOneChannel, false);
  assert.ok(valiant.virtualChannels >= 3, `${valiant.rule} ${valiant.virtualChannels}`);
});

test('a network that locks up names the cycle by its vertices', () => {
  const report = check('ring:n=4', 'minimal');
  for (const name of report.cycle) assert.match(name, /^e\d->e\d$/);
});

test('routes are shortest, connected, and leave endpoints alone that do not forward', () => {
  for (const text of [
    'fat-tree:radix=4',
    'dragonfly:p=2',
    'hamming-mesh:a=2,x=3',
    'slim-fly:q=4,p=1',
    'torus:sizes=4x3',
    'hyperx:sizes=3x3,endpoints=2',
  ]) {
    const { topology, parameters } = parseTopology(text);
    const network = topology.build(parameters);
    const router = makeRouter(network, 'ecmp');
    let longest = 0;
    for (let source = 0; source < network.endpoints; source++) {
      for (let target = 0; target < network.endpoints; target++) {
        const path = router.route(source, target, source);
        let at = source;
        for (const [hop, channel] of path.entries()) {
          assert.equal(network.tail[channel], at, `${text}: connected`);
          at = network.head[channel];
          if (hop < path.length - 1 && !network.endpointsForward)
            assert.ok(at >= network.endpoints, `${text}: passes through an endpoint`);
        }
        assert.equal(at, target);
        longest = Math.max(longest, path.length);
      }
    }
    assert.equal(longest, walkedDiameter(network), `${text}: longest route`);
  }
});

test('Valiant spreads the traffic of a group that minimal routing sends over one cable', () => {
  const { topology, parameters } = parseTopology('dragonfly:p=2,a=4,h=2');
  const network = topology.build(parameters);
  const busiest = (routing: Routing): number => {
    const load = new Map<number, number>();
    for (let source = 0; source < 8; source++) {
      for (const channel of makeRouter(network, routing).route(source, source + 8, source)) {
        if (network.role[channel >> 1] === linkRoles.indexOf('global')) load.set(channel, (load.get(channel) ?? 0) + 1);
      }
    }
    return Math.max(...load.values());
  };
  assert.equal(busiest('minimal'), 8);
  assert.ok(busiest('valiant') <= 4);
});
