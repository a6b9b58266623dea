/** The loss of a classifier: softmax of the logits, then the negative logarithm of the label's share, and its gradient in one pass. */
import { addressOf, KERNEL, result, run } from './kernels.js';

/** Loss of a batch, summed over its samples, and how many were right. */
export interface Loss {
  /** Sum of the losses of the batch (not the mean). */
  lossSum: number;
  /** Samples whose largest logit is the label. */
  correct: number;
}

/**
 * Loss of `batch` rows of `classes` logits. With `gradient`, writes there the gradient of scale x sum of losses; the mean of a batch is
 * scale = 1 / batch. Labels are classes, 0 .. classes - 1. Throws a RangeError at a label that is no class.
 */
export function softmaxCrossEntropy(
  logits: Float32Array,
  labels: Int32Array,
  batch: number,
  gradient?: Float32Array,
  scale = 1 / batch,
): Loss {
  const classes = logits.length / batch;
  if (!Number.isInteger(classes)) throw new RangeError(`${logits.length} logits are not ${batch} rows`);
  if (labels.length < batch) throw new RangeError(`a batch of ${batch} needs as many labels, not ${labels.length}`);
  if (gradient !== undefined && gradient.length < logits.length) {
    throw new RangeError(`the gradient needs ${logits.length} numbers, not ${gradient.length}`);
  }
  const to = gradient === undefined ? 0 : addressOf(gradient);
  run(KERNEL.softmaxCrossEntropy, addressOf(logits), addressOf(labels), to, batch, classes, scale);
  const bad = result(2);
  if (bad > 0) throw new RangeError(`label ${labels[bad - 1]} of sample ${bad - 1} is not in 0 .. ${classes - 1}`);
  return { lossSum: result(0), correct: result(1) };
}
