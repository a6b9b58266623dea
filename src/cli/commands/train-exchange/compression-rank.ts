/**
 * One rank of `verbena bench compression`: trains the same network with each compression and tells bytes, times and losses. The trainings take turns, a few steps each, so that
 * what else the machine does, and what the engine has yet to compile, hits all of them.
 */

import { writeSync } from 'node:fs';
import { Communicator } from '../../../collectives/communicator.js';
import { FileStore } from '../../../launch/store/file-store.js';
import { digitMlp } from '../../../nn/architectures.js';
import { loadMnist } from '../../../nn/data/mnist.js';
import { Sampler } from '../../../nn/data/sampler.js';
import { Model } from '../../../nn/model.js';
import { Sgd } from '../../../nn/optimizers/sgd.js';
import { softmaxCrossEntropy } from '../../../nn/softmax-cross-entropy.js';
import { compressedExchange } from '../../../train/compression/compressed-exchange.js';
import { parseCompression } from '../../../train/compression/compression.js';
import { arenaMemory, distribute } from '../../../train/distribute.js';
import type { MakeExchange } from '../../../train/index.js';
import { openDevice } from '../../../verbs/open-device.js';

export interface CompressionTask {
  readonly rank: number;
  readonly ranks: number;
  readonly directory: string;
  /** As parseCompression reads them, or `none`. */
  readonly kinds: readonly string[];
  readonly steps: number;
  readonly batch: number;
  readonly learningRate: number;
}

/** What rank 0 says of each kind. */
export interface CompressionRun {
  readonly kind: string;
  readonly bytesPerStep: number;
  /** Mean loss of all ranks, by step. */
  readonly losses: readonly number[];
  /** Median, ms: the whole step; what it took without the exchange; and what the exchange added after backward. */
  readonly stepMs: number;
  readonly computeMs: number;
  readonly exchangeMs: number;
}

/** Steps of one training before the next has its turn. */
const TURN = 10;

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1];

async function main({ rank, ranks, directory, kinds, steps, batch, learningRate }: CompressionTask): Promise<void> {
  const store = new FileStore({ directory, size: ranks });
  const device = await openDevice('shm');
  const { train: data } = loadMnist();
  const sampler = new Sampler({ count: data.count, globalBatch: batch * ranks, seed: 1 });
  const inputs = new Float32Array(batch * 784);
  const labels = new Int32Array(batch);
  const open = async (kind: string) => {
    const communicator = await Communicator.create({ rank, size: ranks, exchange: store, key: `compression ${kind}` });
    const model = new Model({ input: [1, 28, 28], layers: digitMlp(), maxBatch: batch, seed: 1, memory: arenaMemory(device) });
    const exchange: MakeExchange | undefined = kind === 'none' ? undefined : compressedExchange(parseCompression(kind));
    const training = await distribute(model, new Sgd(model), communicator, {
      device,
      ...(exchange === undefined ? {} : { exchange }),
    });
    return { kind, training, losses: new Float64Array(steps), times: [] as { total: number; compute: number }[] };
  };
  const runs: Awaited<ReturnType<typeof open>>[] = [];
  for (const kind of kinds) runs.push(await open(kind));
  for (let from = 0; from < steps; from += TURN) {
    for (const { training, losses, times } of runs) {
      for (let step = from; step < Math.min(steps, from + TURN); step++) {
        const epoch = Math.floor(step / sampler.stepsPerEpoch);
        const share = sampler.share(epoch, step % sampler.stepsPerEpoch, rank, ranks);
        data.read(share, inputs, labels);
        const result = await training.step({
          count: share.length,
          globalCount: batch * ranks,
          learningRate,
          samples: share,
          inputs: (start, end) => inputs.subarray(784 * start, 784 * end),
          loss: (outputs, start, end, gradient, scale) =>
            softmaxCrossEntropy(outputs, labels.subarray(start, end), end - start, gradient, scale),
        });
        losses[step] = result.lossSum / (batch * ranks);
        const { totalMs, forwardMs, backwardMs, optimizerMs, waitMs } = result.times;
        times.push({ total: totalMs - waitMs, compute: forwardMs + backwardMs + optimizerMs });
      }
    }
  }
  for (const { kind, training, losses, times } of runs) {
    await training.communicator.allreduce(losses, 'sum');
    const stepMs = median(times.map(({ total }) => total));
    const computeMs = median(times.map(({ compute }) => compute));
    const bytesPerStep = training.exchangeTotals().bytes / steps;
    const run: CompressionRun = { kind, bytesPerStep, losses: [...losses], stepMs, computeMs, exchangeMs: stepMs - computeMs };
    if (rank === 0) writeSync(1, `${JSON.stringify(run)}\n`);
    await training.close();
  }
  store.close();
  device.close();
}

await main(JSON.parse(process.argv[2]) as CompressionTask);
