/**
 * Training in one process: the loop that distributed training is compared with.
 *
 * Everything random follows from the seeds of the model and of the sampler, so a run can be repeated bit for bit.
 */
import { clipByGlobalNorm } from './clipping.js';
import type { ImageDataset } from './data/image-dataset.js';
import type { Sampler } from './data/sampler.js';
import { sizeOf } from './layer.js';
import type { LearningRate } from './learning-rate.js';
import type { Model } from './model.js';
import type { Optimizer } from './optimizers/optimizer.js';
import { softmaxCrossEntropy } from './softmax-cross-entropy.js';

export interface TrainOptions {
  /** What is trained, in place. */
  model: Model;
  /** Makes an update of a gradient; of the same model. */
  optimizer: Optimizer;
  /** What is learned from. */
  data: ImageDataset;
  /** Its globalBatch is the batch; at most the model's maxBatch. */
  sampler: Sampler;
  /** The rate of a step, or a function of the step's number. */
  learningRate: LearningRate;
  /** Passes over the data; at least 1. */
  epochs: number;
  /** Gradients longer than this are shortened; above 0. Default: no clipping. */
  maxNorm?: number;
  /** Called after every step. Returning false ends the training. */
  onStep?: (progress: StepProgress) => boolean | undefined;
}

/** What is told after a step. */
export interface StepProgress {
  /** Steps done in all epochs, from 1. */
  step: number;
  epoch: number;
  /** Mean loss of the batch. */
  loss: number;
  /** Share of the batch that was classified rightly, before the update. */
  accuracy: number;
  /** Samples seen so far. */
  samples: number;
}

/** Loss and accuracy over a data set. */
export interface Evaluation {
  /** Mean loss. */
  loss: number;
  /** Share of right answers, 0 .. 1. */
  accuracy: number;
  /** The samples that were classified wrongly, at most `keepWrong`. */
  wrong: { sample: number; answer: number; label: number }[];
}

/** Trains for some epochs, on the calling thread. Returns the number of steps done. */
export function trainModel(options: TrainOptions): number {
  const { model, optimizer, data, sampler, learningRate, epochs, maxNorm, onStep } = options;
  const images = new Float32Array(sampler.globalBatch * sizeOf(model.inputShape));
  const labels = new Int32Array(sampler.globalBatch);
  const gradient = new Float32Array(sampler.globalBatch * sizeOf(model.outputShape));
  let step = 0;
  let seen = 0;
  for (let epoch = 0; epoch < epochs; epoch++) {
    for (let i = 0; i < sampler.stepsPerEpoch; i++) {
      const samples = sampler.batch(epoch, i);
      const batch = samples.length;
      data.read(samples, images, labels);
      const logits = model.forward(images, batch, { training: true, samples, step });
      const { lossSum, correct } = softmaxCrossEntropy(logits, labels, batch, gradient);
      model.backward(gradient);
      if (maxNorm !== undefined) clipByGlobalNorm(model.gradients, maxNorm);
      optimizer.step(learningRate(step));
      step++;
      seen += batch;
      if (onStep?.({ step, epoch, loss: lossSum / batch, accuracy: correct / batch, samples: seen }) === false) return step;
    }
  }
  return step;
}

/** Classifies the whole data set. `keepWrong`: how many wrong answers to keep. Default: 0. */
export function evaluateModel(model: Model, data: ImageDataset, keepWrong = 0): Evaluation {
  const classes = sizeOf(model.outputShape);
  const images = new Float32Array(model.maxBatch * sizeOf(model.inputShape));
  const labels = new Int32Array(model.maxBatch);
  const wrong: Evaluation['wrong'] = [];
  let lossSum = 0;
  let correct = 0;
  for (let from = 0; from < data.count; from += model.maxBatch) {
    const samples = Uint32Array.from({ length: Math.min(model.maxBatch, data.count - from) }, (_, i) => from + i);
    data.read(samples, images, labels);
    const logits = model.forward(images, samples.length);
    const batch = softmaxCrossEntropy(logits, labels, samples.length);
    lossSum += batch.lossSum;
    correct += batch.correct;
    for (let s = 0; s < samples.length && wrong.length < keepWrong; s++) {
      const row = logits.subarray(s * classes, (s + 1) * classes);
      const answer = row.indexOf(Math.max(...row));
      if (answer !== labels[s]) wrong.push({ sample: from + s, answer, label: labels[s] });
    }
  }
  return { loss: lossSum / data.count, accuracy: correct / data.count, wrong };
}
