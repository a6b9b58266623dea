/** The planner: topologies, routing, simulation of schedules, cost models, training plans. */
export { type ComparedAlgorithm, type Comparison, type ComparisonQuestion, compareAlgorithms } from './comparison.js';
export { formulaNs, machineOf } from './cost/collective-cost.js';
export { type CompressionAnswer, type CompressionQuestion, compressionPayoff } from './cost/compression.js';
export { type LatencyBudget, type LatencyOptions, latencyBudget } from './cost/latency-budget.js';
export { type PacketBudget, type PacketOptions, packetBudget } from './cost/packet-budget.js';
export { type ParameterServerAnswer, type ParameterServerQuestion, parameterServer } from './cost/parameter-server.js';
export { type EnergyAnswer, type EnergyOptions, pollingEnergy } from './cost/polling-energy.js';
export {
  type LinkKind,
  linkKinds,
  linkNamed,
  rendezvousThreshold,
  type ThresholdAnswer,
  type ThresholdOptions,
} from './cost/rendezvous-threshold.js';
export { type RooflineAnswer, type RooflineQuestion, roofline } from './cost/roofline.js';
export { type SpeedupAnswer, speedup, workersAtEfficiency } from './cost/speedup.js';
export { type CalibrationRun, medianError, type PredictedTime, predictHeldOut } from './fit/calibration.js';
export { fitLine, fitPiecewise, leaveOneOut, type PredictedRow, type TimeModel } from './fit/piecewise.js';
export { type MeasuredRow, type MeasuredTable, publishedTables } from './fit/published-tables.js';
export { PlanRefusal } from './refusal.js';
export { drawBars } from './report/bar-chart.js';
export { drawCurves } from './report/curve-chart.js';
export { drawNetwork } from './report/network-drawing.js';
export { type Page, renderPage, type Section } from './report/page.js';
export { drawPipeline } from './report/timeline-chart.js';
export { checkDeadlock, type DeadlockReport } from './routing/deadlock.js';
export { makeRouter, type Router, type Routing } from './routing/router.js';
export { type EventsResult, simulateEvents } from './simulate/events.js';
export { type Fabric, type FabricOptions, makeFabric } from './simulate/fabric.js';
export { type RoundsResult, simulateRounds } from './simulate/rounds.js';
export type { Workload } from './simulate/traffic.js';
export type { Network } from './topology/network.js';
export { type GrowthCost, growthCost, type NetworkCost, networkCost, type PriceTable } from './topology/price.js';
export { parseTopology, topologies, topologyNamed } from './topology/registry.js';
export type { Topology, TopologyFigures, TopologyParameters } from './topology/topology.js';
export { type A800Options, type A800Study, a800Study } from './train/a800-study.js';
export { type Cluster, type Device, deviceNamed, devices, parseCluster } from './train/cluster.js';
export { type Model, models, parameters, parseModel } from './train/model.js';
export { costPlan, type PlanChoice, type PlanCost } from './train/plan.js';
export { type SearchOptions, type SearchResult, searchPlans } from './train/search.js';
