/**
 * The A100 to A800 question: the A800 is an A100 whose NVLink is cut from 300 to 200 GB/s one way. When does that hurt, and how much?
 *
 * Where "NVLink must be 1.75 times the NICs" comes from: one all-reduce of V over t = 8 devices puts 2(t-1)/t V = 1.75 V on every device's link, while the pipeline
 * boundary carries V once. With scatter/gather the eight NICs of a host share that V, so their sum is what NVLink has to be compared with: 8 x 25 = 200 GB/s nominal,
 * about 160 measured. Nominal: 350 needed, both devices fall short. Measured: 280 needed, the A100 (300) passes, the A800 (200) does not.
 *
 * Equality of the two is no criterion by itself, though: a stage has two all-reduces per layer forward, and most of the time is computing. The answer that counts
 * is the time it costs.
 */
import { PlanRefusal, requireNumber } from '../refusal.js';
import { type Cluster, checkCluster, deviceNamed } from './cluster.js';
import { layerForwardFlops, type Model, parseModel } from './model.js';
import { costPlan, type PlanCost } from './plan.js';
import { searchPlans } from './search.js';

export interface A800Options {
  /** Share of the nominal speed that the NICs reach. Default 0.8, as measured in the source (160 of 200 GB/s). */
  readonly nicEfficiency?: number;
  /** Share of the nominal speed that NVLink reaches in the layer times. Default 1. */
  readonly linkEfficiency?: number;
  /** Devices of the whole-model comparison. Default 1024. */
  readonly devices?: number;
  /** Default gpt3-175b. */
  readonly model?: Model;
}

export interface A800Case {
  readonly name: string;
  /** Bytes per second of all NICs of a host, one way. */
  readonly nicBytesPerSecond: number;
  /** What NVLink must carry, one way: 1.75 times that. */
  readonly neededBytesPerSecond: number;
  readonly devices: readonly {
    readonly device: string;
    readonly linkBytesPerSecond: number;
    readonly ratio: number;
    readonly binds: boolean;
  }[];
}

export interface A800Study {
  /** 2(t-1)/t for t = 2, 4, 8, 16. */
  readonly factors: readonly { readonly tensor: number; readonly factor: number }[];
  /** Without scatter/gather every NIC carries V: 1.75 times ONE NIC. */
  readonly perNicBytesPerSecond: number;
  readonly cases: readonly A800Case[];
  /** One layer forward: b = 1, t = 8. */
  readonly layer: {
    readonly exchangedBytes: number;
    readonly wireBytes: number;
    readonly computeSeconds: number;
    readonly devices: readonly { readonly device: string; readonly exchangeSeconds: number; readonly totalSeconds: number }[];
    readonly slowdown: number;
  };
  /** The best plan for the A100 on both, and the best plan for each. */
  readonly training: {
    /** The best plan for each tensor degree, on both. */
    readonly byTensor: readonly {
      readonly tensor: number;
      readonly a100: PlanCost;
      readonly a800: PlanCost;
      readonly slowdown: number;
    }[];
    readonly samePlan: readonly [PlanCost, PlanCost];
    readonly bestPlans: readonly [PlanCost, PlanCost];
    readonly samePlanSlowdown: number;
    readonly replannedSlowdown: number;
  };
}

export function a800Study(options: A800Options = {}): A800Study {
  const nicEfficiency = requireNumber('nicEfficiency', options.nicEfficiency ?? 0.8, 0.01, 1);
  const linkEfficiency = requireNumber('linkEfficiency', options.linkEfficiency ?? 1, 0.01, 1);
  const model = options.model ?? parseModel('gpt3-175b');
  const pair = [deviceNamed('a100'), deviceNamed('a800')] as const;
  const tensor = 8;
  const factor = (2 * (tensor - 1)) / tensor;

  const nominal = 8 * pair[0].nicBytesPerSecond;
  const cases = [
    { name: 'nominal NICs', nic: nominal },
    { name: `NICs at ${Math.round(nicEfficiency * 100)} %`, nic: nominal * nicEfficiency },
  ].map(
    ({ name, nic }): A800Case => ({
      name,
      nicBytesPerSecond: nic,
      neededBytesPerSecond: factor * nic,
      devices: pair.map((device) => ({
        device: device.name,
        linkBytesPerSecond: device.linkBytesPerSecond,
        ratio: device.linkBytesPerSecond / nic,
        binds: device.linkBytesPerSecond < factor * nic,
      })),
    }),
  );

  const exchangedBytes = 2 * model.sequence * model.hidden;
  const wireBytes = 2 * factor * exchangedBytes;
  const computeSeconds = layerForwardFlops(model, 1) / tensor / (0.5 * pair[0].flopsPerSecond);
  const layers = pair.map((device) => {
    const exchangeSeconds = wireBytes / (device.linkBytesPerSecond * linkEfficiency);
    return { device: device.name, exchangeSeconds, totalSeconds: computeSeconds + exchangeSeconds };
  });

  const clusters = pair.map(
    (device): Cluster =>
      checkCluster({
        name: `dgx-${device.name}`,
        device,
        devicesPerHost: 8,
        hosts: Math.ceil((options.devices ?? 1024) / 8),
        nicEfficiency,
        linkEfficiency: 0.8,
      }),
  );
  const best = clusters.map((cluster) => searchPlans(model, cluster).best) as [PlanCost, PlanCost];
  const byTensor = [1, 2, 4, 8].flatMap((degree) => {
    try {
      const a100 = searchPlans(model, clusters[0], { fixed: { tensor: degree } }).best;
      const a800 = costPlan(model, clusters[1], a100.choice);
      return [{ tensor: degree, a100, a800, slowdown: a800.seconds.total / a100.seconds.total - 1 }];
    } catch (error) {
      if (error instanceof PlanRefusal) return []; // does not fit at this degree
      throw error;
    }
  });
  const moved = costPlan(model, clusters[1], best[0].choice);
  return {
    factors: [2, 4, 8, 16].map((t) => ({ tensor: t, factor: (2 * (t - 1)) / t })),
    perNicBytesPerSecond: factor * pair[0].nicBytesPerSecond,
    cases,
    layer: {
      exchangedBytes,
      wireBytes,
      computeSeconds,
      devices: layers,
      slowdown: layers[1].totalSeconds / layers[0].totalSeconds - 1,
    },
    training: {
      byTensor,
      samePlan: [best[0], moved],
      bestPlans: best,
      samePlanSlowdown: moved.seconds.total / best[0].seconds.total - 1,
      replannedSlowdown: best[1].seconds.total / best[0].seconds.total - 1,
    },
  };
}
