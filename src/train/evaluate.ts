/**
 * Evaluation shared by the ranks: each classifies its part of the data, sums are added over all. The parts differ by at most one sample and
 * together are the data exactly, so the answer is that of one rank alone.
 */
import type { Communicator } from '../collectives/index.js';
import type { Model } from '../nn/index.js';
import { sizeOf } from '../nn/layer.js';
import { softmaxCrossEntropy } from '../nn/softmax-cross-entropy.js';

/** Labelled samples that can be read by number. */
export interface Examples {
  readonly count: number;
  /** Writes inputs and labels of these samples, in this order. */
  read(samples: Uint32Array, inputs: Float32Array, labels: Int32Array): void;
}

/** A sample that was taken for something else. */
export interface WrongAnswer {
  readonly sample: number;
  readonly answer: number;
  readonly label: number;
}

/** Loss and accuracy over a data set that the ranks have shared. */
export interface SharedEvaluation {
  /** Mean loss over all samples. */
  readonly loss: number;
  /** Share of right answers, 0 .. 1. */
  readonly accuracy: number;
  readonly correct: number;
  readonly count: number;
  /** Wrong answers of all ranks, at most `keepWrong` of each, in the order of the data. */
  readonly wrong: readonly WrongAnswer[];
}

/** Classifies the data with the parameters as they are. All ranks call it. `keepWrong`: wrong answers kept of each rank; default 0. @throws RankLost. */
export async function evaluate(
  model: Model,
  data: Examples,
  communicator: Communicator,
  keepWrong = 0,
): Promise<SharedEvaluation> {
  const { rank, size } = communicator;
  const classes = sizeOf(model.outputShape);
  const inputs = new Float32Array(model.maxBatch * sizeOf(model.inputShape));
  const labels = new Int32Array(model.maxBatch);
  const end = Math.floor((data.count * (rank + 1)) / size);
  const sums = new Float64Array(3);
  const fields = 1 + 3 * keepWrong;
  const wrong = new Int32Array(fields * size);
  const own = wrong.subarray(fields * rank, fields * (rank + 1));
  for (let from = Math.floor((data.count * rank) / size); from < end; from += model.maxBatch) {
    const samples = Uint32Array.from({ length: Math.min(model.maxBatch, end - from) }, (_, i) => from + i);
    data.read(samples, inputs, labels);
    const outputs = model.forward(inputs, samples.length);
    const { lossSum, correct } = softmaxCrossEntropy(outputs, labels, samples.length);
    sums[0] += lossSum;
    sums[1] += correct;
    sums[2] += samples.length;
    for (let s = 0; s < samples.length && own[0] < keepWrong; s++) {
      const row = outputs.subarray(s * classes, (s + 1) * classes);
      const answer = row.indexOf(Math.max(...row));
      if (answer !== labels[s]) own.set([from + s, answer, labels[s]], 1 + 3 * own[0]++);
    }
  }
  await communicator.allreduce(sums, 'sum');
  if (keepWrong > 0) await communicator.allgather(wrong);
  const answers = Array.from({ length: size }, (_, r) => wrong.subarray(fields * r, fields * (r + 1))).flatMap((kept) =>
    Array.from({ length: kept[0] }, (_, i) => {
      const [sample, answer, label] = kept.subarray(1 + 3 * i, 4 + 3 * i);
      return { sample, answer, label };
    }),
  );
  const [lossSum, correct, count] = sums;
  return { loss: lossSum / count, accuracy: correct / count, correct, count, wrong: answers };
}
