/**
 * Values that other simulators print for set-ups small enough to be followed by hand: ASTRA-sim's analytical network, 16 nodes, 50 GiB/s and 500 ns a hop, messages of 1 MiB.
 * Ours must print the same nanoseconds.
 */
import { type FabricOptions, makeFabric } from '../../src/plan/simulate/fabric.js';
import { runTogether } from '../../src/plan/simulate/transfers.js';
import { type Network, NetworkBuilder } from '../../src/plan/topology/network.js';
import { parseTopology } from '../../src/plan/topology/registry.js';

const bytes = 2 ** 20;
const idle: FabricOptions = { linkBytesPerSecond: 50 * 2 ** 30, hopLatencyNs: 500, overheadNs: 0 };
const queued: FabricOptions = { ...idle, switching: 'store-and-forward', wholeNanoseconds: true };

export interface CrossSimulatorValue {
  readonly what: string;
  readonly theirsNs: number;
  readonly oursNs: number;
}

export function crossSimulatorValues(): CrossSimulatorValue[] {
  const networks: [string, Network][] = [
    ['ring', build('ring:n=16')],
    ['fully connected', fullyConnected(16)],
    ['switch', build('tree:k=16,depth=1')],
  ];
  const expected = { idle: [21_031, 20_031, 20_531], queued: [60_093, 20_031, 40_062] };
  const values: CrossSimulatorValue[] = [];
  for (const [i, [name, network]] of networks.entries()) {
    values.push({ what: `send 1 to 4, ${name}, no queues`, theirsNs: expected.idle[i], oursNs: sendNs(network, idle) });
    values.push({
      what: `send 1 to 4, ${name}, store and forward`,
      theirsNs: expected.queued[i],
      oursNs: sendNs(network, queued),
    });
  }
  values.push({
    what: 'direct all-gather, ring, store and forward',
    theirsNs: 704_116,
    oursNs: directAllGatherNs(networks[0][1]),
  });
  return values;
}

function sendNs(network: Network, options: FabricOptions): number {
  const fabric = makeFabric(network, 16, options);
  return Math.floor(runTogether(fabric, [{ path: fabric.path(1, 4), bytes }])[0]);
}

function directAllGatherNs(network: Network): number {
  const fabric = makeFabric(network, 16, queued);
  const flows = [];
  for (let from = 0; from < 16; from++)
    for (let away = 1; away < 16; away++) flows.push({ path: fabric.path(from, (from + away) % 16), bytes });
  return Math.max(...runTogether(fabric, flows));
}

function build(text: string): Network {
  const { topology, parameters } = parseTopology(text);
  return topology.build(parameters);
}

function fullyConnected(n: number): Network {
  const builder = new NetworkBuilder('fully connected', n);
  for (let a = 0; a < n; a++) for (let b = a + 1; b < n; b++) builder.addLink(a, b, 'mesh', 'aoc');
  return builder.build({ endpointsForward: true });
}
