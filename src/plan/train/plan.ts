/**
 * A training plan: how a model is spread over a cluster, and what a step then costs.
 *
 * ```
 *   devices = data x tensor x pipeline;  tensor innermost (fast links), then pipeline across hosts, data outermost
 *   micro-batches m = batch / (data x microBatch)
 *
 *   step = m (forward + backward + recompute + tensor exchange + boundary) (1 + bubble) + exposed gradient exchange
 * ```
 * Every part is kept, so that whoever loses can say why. Tensor parallelism: Megatron's split has four all-reduces of b s h per layer and micro-batch (six
 * with full recomputation); the plain column split gathers every output and reduces every input gradient, 23/8 of the bytes.
 */
import type { PipelineName } from '../../schedule/pipeline.js';
import { PlanRefusal, requireInteger } from '../refusal.js';
import type { Cluster } from './cluster.js';
import { activationBytes, type Recompute, stageParameters, stateBytes, type ZeroStage } from './memory.js';
import { layerForwardFlops, type Model, outputForwardFlops, stepFlops } from './model.js';
import { pipelineCost } from './pipeline-cost.js';

export type TensorSplit = 'megatron' | 'column';

/** How a training is split over devices. */
export interface PlanChoice {
  readonly data: number;
  readonly tensor: number;
  readonly pipeline: number;
  /** Sequences per micro-batch. */
  readonly microBatch: number;
  /** Default 1f1b. */
  readonly schedule?: PipelineName;
  /** Model parts per stage for the interleaved schedule. Default 2. */
  readonly parts?: number;
  /** Default selective. */
  readonly recompute?: Recompute;
  /** Default 1. */
  readonly zero?: ZeroStage;
  /** Default megatron. */
  readonly split?: TensorSplit;
  /** Default true. */
  readonly sequenceParallel?: boolean;
}

/** What a plan takes: memory in bytes, times of a step in seconds. */
export interface PlanCost {
  readonly choice: Required<PlanChoice>;
  readonly microBatches: number;
  readonly memory: { readonly states: number; readonly activations: number; readonly total: number; readonly limit: number };
  readonly fits: boolean;
  /** Seconds per step, by part. They add up to `total`. */
  readonly seconds: {
    readonly compute: number;
    readonly recompute: number;
    readonly tensor: number;
    readonly boundary: number;
    readonly bubble: number;
    readonly data: number;
    readonly total: number;
  };
  readonly bubbleOverTotal: number;
  /** Model operations over what the devices could do: without recomputation, as publications count it. */
  readonly utilisation: number;
  readonly sequencesPerSecond: number;
}

/** Costs one plan. Refuses impossible ones with the reason and the nearest legal value; memory that does not fit is an answer (`fits: false`). */
export function costPlan(model: Model, cluster: Cluster, given: PlanChoice): PlanCost {
  const choice = checkChoice(model, cluster, given);
  const { data, tensor, pipeline, microBatch, schedule, parts, recompute, zero, sequenceParallel } = choice;
  const { device } = cluster;
  const microBatches = model.batch / (data * microBatch);
  const layers = model.layers / pipeline;
  const pipe = pipelineCost(schedule, pipeline, microBatches, parts);

  const states = stateBytes(stageParameters(model, pipeline, tensor), zero, data);
  const perLayer = activationBytes(model, { sequences: microBatch, tensor, recompute, sequenceParallel });
  const working =
    recompute === 'full' ? activationBytes(model, { sequences: microBatch, tensor, recompute: 'none', sequenceParallel }) : 0;
  const activations = perLayer * layers * pipe.inFlight + working;
  const total = states + activations;

  const speed = device.flopsPerSecond * cluster.computeEfficiency;
  const forward =
    (layers * layerForwardFlops(model, microBatch) + outputForwardFlops(model, microBatch) / pipeline) / tensor / speed;
  const again =
    recompute === 'full'
      ? forward
      : recompute === 'selective'
        ? (layers * 4 * microBatch * model.sequence ** 2 * model.hidden) / tensor / speed
        : 0;
  const tensorSeconds = layers * tensorExchange(model, cluster, choice);
  const boundary = pipeline === 1 ? 0 : 2 * pipe.boundaryFactor * boundarySeconds(model, cluster, choice);
  const perMicro = 3 * forward + again + tensorSeconds + boundary;
  const bubble = pipe.bubbleOverIdeal * microBatches * perMicro;
  const dataSeconds = exposedGradient(model, cluster, choice, { forward, layers });
  const seconds = {
    compute: microBatches * 3 * forward,
    recompute: microBatches * again,
    tensor: microBatches * tensorSeconds,
    boundary: microBatches * boundary,
    bubble,
    data: dataSeconds,
    total: microBatches * perMicro + bubble + dataSeconds,
  };
  const used = data * tensor * pipeline;
  return {
    choice,
    microBatches,
    memory: { states, activations, total, limit: device.memoryBytes },
    fits: total <= device.memoryBytes,
    seconds,
    bubbleOverTotal: bubble / seconds.total,
    utilisation: stepFlops(model) / (seconds.total * used * device.flopsPerSecond),
    sequencesPerSecond: model.batch / seconds.total,
  };
}

/** Seconds of tensor-parallel exchange per layer and micro-batch, forward and backward. */
export function tensorExchange(
  model: Model,
  cluster: Cluster,
  c: Pick<Required<PlanChoice>, 'tensor' | 'microBatch' | 'recompute' | 'split'>,
): number {
  if (c.tensor === 1) return 0;
  const t = c.tensor;
  const bytes = 2 * c.microBatch * model.sequence * model.hidden;
  const inside = t <= cluster.devicesPerHost;
  const rate = inside
    ? cluster.device.linkBytesPerSecond * cluster.linkEfficiency
    : cluster.device.nicBytesPerSecond * cluster.nicEfficiency;
  const latency = inside ? cluster.linkLatencySeconds : cluster.nicLatencySeconds;
  const allReduce = (2 * (t - 1) * bytes) / t / rate + 2 * latency * Math.ceil(Math.log2(t));
  const gather = ((t - 1) * bytes) / t / rate + latency * Math.ceil(Math.log2(t));
  if (c.split === 'megatron') return (c.recompute === 'full' ? 6 : 4) * allReduce;
  // column split: outputs of 3h, h, 4h, h gathered forward; input gradients of h, h, h, 4h reduced backward
  return (c.recompute === 'full' ? 18 : 9) * gather + 7 * allReduce;
}

/** Seconds to hand one micro-batch to the next stage, the tensor ranks sharing the load. */
export function boundarySeconds(
  model: Model,
  cluster: Cluster,
  c: Pick<Required<PlanChoice>, 'tensor' | 'pipeline' | 'microBatch'>,
): number {
  const bytes = (2 * c.microBatch * model.sequence * model.hidden) / c.tensor;
  const inside = c.tensor * c.pipeline <= cluster.devicesPerHost;
  const rate = inside
    ? cluster.device.linkBytesPerSecond * cluster.linkEfficiency
    : cluster.device.nicBytesPerSecond * cluster.nicEfficiency;
  return bytes / rate + (inside ? cluster.linkLatencySeconds : cluster.nicLatencySeconds);
}

/** Gradient exchange that does not hide behind the last micro-batch's backward pass. */
function exposedGradient(
  model: Model,
  cluster: Cluster,
  c: Required<PlanChoice>,
  at: { forward: number; layers: number },
): number {
  if (c.data === 1) return 0;
  const count = stageParameters(model, c.pipeline, c.tensor);
  const inside = c.data * c.tensor * c.pipeline <= cluster.devicesPerHost;
  const rate = inside
    ? cluster.device.linkBytesPerSecond * cluster.linkEfficiency
    : cluster.device.nicBytesPerSecond * cluster.nicEfficiency;
  const latency = inside ? cluster.linkLatencySeconds : cluster.nicLatencySeconds;
  const trips = c.zero === 3 ? 3 : 2;
  const exchange = (trips * ((c.data - 1) / c.data) * count * 2) / rate + trips * latency * Math.ceil(Math.log2(c.data));
  const hidden = Math.min(exchange * (1 - 1 / Math.max(1, at.layers)), 2 * at.forward);
  return exchange - hidden;
}

function checkChoice(model: Model, cluster: Cluster, given: PlanChoice): Required<PlanChoice> {
  const choice: Required<PlanChoice> = {
    schedule: '1f1b',
    parts: 2,
    recompute: 'selective',
    zero: 1,
    split: 'megatron',
    sequenceParallel: true,
    ...given,
  };
  const devices = cluster.hosts * cluster.devicesPerHost;
  const { data, tensor, pipeline, microBatch } = choice;
  for (const name of ['data', 'tensor', 'pipeline', 'microBatch'] as const) requireInteger(name, choice[name], 1);
  if (tensor > model.heads)
    throw new PlanRefusal(
      `tensor degree ${tensor} is above the ${model.heads} heads of the model: a head cannot be split`,
      `tensor=${nearestDivisor(model.heads, tensor)}`,
    );
  if (model.heads % tensor !== 0)
    throw new PlanRefusal(
      `${model.heads} heads do not divide among ${tensor} tensor ranks`,
      `tensor=${nearestDivisor(model.heads, tensor)}`,
    );
  const pieces = choice.schedule === 'interleaved' && pipeline > 1 ? pipeline * choice.parts : pipeline;
  if (pieces > model.layers || model.layers % pieces !== 0) {
    throw new PlanRefusal(
      `${model.layers} layers do not divide into ${pieces} pipeline pieces`,
      `pipeline=${nearestDivisor(model.layers / (pieces / pipeline), pipeline)}`,
    );
  }
  if (data * tensor * pipeline !== devices) {
    throw new PlanRefusal(
      `data ${data} x tensor ${tensor} x pipeline ${pipeline} = ${data * tensor * pipeline}, and the cluster has ${devices} devices`,
      `data=${Math.max(1, Math.round(devices / (tensor * pipeline)))}`,
    );
  }
  if (model.batch % (data * microBatch) !== 0) {
    throw new PlanRefusal(
      `a batch of ${model.batch} does not divide into ${data} replicas of micro-batches of ${microBatch}`,
      `batch=${Math.max(1, Math.round(model.batch / (data * microBatch))) * data * microBatch}`,
    );
  }
  if (choice.schedule === 'interleaved' && pipeline > 1 && (model.batch / (data * microBatch)) % pipeline !== 0) {
    const m = model.batch / (data * microBatch);
    throw new PlanRefusal(
      `the interleaved schedule needs micro-batches (${m}) in multiples of the ${pipeline} stages`,
      `micro-batches=${Math.max(1, Math.round(m / pipeline)) * pipeline}`,
    );
  }
  return choice;
}

function nearestDivisor(n: number, near: number): number {
  let best = 1;
  for (let d = 1; d <= n; d++) if (n % d === 0 && Math.abs(d - near) < Math.abs(best - near)) best = d;
  return best;
}
