/**
 * Plans a cluster before anything is bought: which network, which all-reduce on it, which parallel plan for the model, and where the network hurts.
 *
 * Everything is computed; no NIC, no GPU, no second machine.
 */
import {
  compareAlgorithms,
  networkCost,
  PlanRefusal,
  parseCluster,
  parseModel,
  parseTopology,
  searchPlans,
  topologies,
} from 'verbena/plan';

const hosts = 128;
console.log(`1. Networks for ${hosts} hosts, switches of 32 ports:`);
const networks = [];
for (const topology of topologies) {
  try {
    const figures = topology.figures(topology.fit(hosts, 32));
    const { moneyPerEndpoint } = networkCost(figures);
    networks.push({
      name: topology.name,
      parameters: figures.parameters,
      moneyPerEndpoint,
      relative: figures.bisection.relative,
    });
  } catch (error) {
    if (!(error instanceof PlanRefusal)) throw error;
    console.log(`   ${topology.name}: ${error.message}`);
  }
}
// of those with at least half of full bisection, the cheapest
networks.sort((a, b) => a.moneyPerEndpoint - b.moneyPerEndpoint);
for (const { name, moneyPerEndpoint, relative } of networks) {
  console.log(
    `   ${name.padEnd(18)} ${moneyPerEndpoint.toFixed(0).padStart(5)} an endpoint, ${(relative * 100).toFixed(0).padStart(3)} % of full bisection`,
  );
}
const chosen = networks.find(({ relative }) => relative >= 0.5);
if (chosen === undefined) throw new Error('no network keeps half of full bisection');
console.log(`   -> ${chosen.name}`);

console.log(`2. All-reduce of 350 MB over ${hosts} hosts of eight accelerators on it:`);
const { topology } = parseTopology(chosen.name);
const comparison = compareAlgorithms({
  collective: 'allreduce',
  network: topology.build(chosen.parameters),
  ranks: hosts * 8,
  bytes: 350e6,
  fabric: { ranksPerEndpoint: 8 },
  algorithms: ['ring', 'halving-doubling', 'double-binary-tree', 'hierarchical'],
});
for (const row of comparison.rows)
  console.log(
    `   ${row.algorithm.padEnd(18)} ${(row.simulatedNs / 1e6).toFixed(1).padStart(7)} ms simulated, ${(row.formulaNs / 1e6).toFixed(1).padStart(7)} ms by formula`,
  );

console.log('3. Training gpt3-175b on it:');
const plans = searchPlans(parseModel('gpt3-175b'), parseCluster(`dgx-a100:${hosts * 8}`));
const { choice, seconds, utilisation } = plans.best;
console.log(
  `   data ${choice.data} x tensor ${choice.tensor} x pipeline ${choice.pipeline}, micro-batches of ${choice.microBatch}, ${choice.schedule}: ${seconds.total.toFixed(1)} s a step, ${(utilisation * 100).toFixed(0)} % of the peak`,
);
for (const { cost, reason } of plans.ranked.slice(1, 4))
  console.log(
    `   not ${cost.choice.data} x ${cost.choice.tensor} x ${cost.choice.pipeline}, micro ${cost.choice.microBatch}: ${reason}`,
  );
