/**
 * Memory of one device: model states and activations.
 *
 * States in mixed precision with Adam: 2 bytes of weight, 2 of gradient, 12 of optimizer per parameter, and what each ZeRO stage shares among d data-parallel
 * ranks. Activations per layer and micro-batch of b sequences, t tensor-parallel ranks:
 *
 * | recompute | bytes                                   |
 * |-----------|-----------------------------------------|
 * | none      | s b h (10 + 24/t + 5 a s / (h t))       |
 * | selective | s b h (10 + 24/t): attention maps again |
 * | full      | 2 s b h kept, one layer's worth at work |
 *
 * With sequence parallelism the 10 is divided by t as well.
 */
import { embeddingParameters, layerParameters, type Model } from './model.js';

export type Recompute = 'none' | 'selective' | 'full';
export type ZeroStage = 0 | 1 | 2 | 3;

/** Bytes of weights, gradients and optimizer state for `count` parameters shared by `dataRanks` ranks. */
export function stateBytes(count: number, stage: ZeroStage, dataRanks: number): number {
  const optimizer = 12;
  switch (stage) {
    case 0:
      return (4 + optimizer) * count;
    case 1:
      return 4 * count + (optimizer * count) / dataRanks;
    case 2:
      return 2 * count + ((2 + optimizer) * count) / dataRanks;
    case 3:
      return ((4 + optimizer) * count) / dataRanks;
  }
}

export interface ActivationOptions {
  readonly sequences: number;
  readonly tensor: number;
  readonly recompute: Recompute;
  readonly sequenceParallel: boolean;
}

/** Bytes one layer keeps for one micro-batch. */
export function activationBytes(model: Model, o: ActivationOptions): number {
  const { sequence: s, hidden: h, heads: a } = model;
  const unit = s * o.sequences * h;
  if (o.recompute === 'full') return (2 * unit) / (o.sequenceParallel ? o.tensor : 1);
  const shared = (o.sequenceParallel ? 10 / o.tensor : 10) + 24 / o.tensor;
  const maps = o.recompute === 'none' ? (5 * a * s) / (h * o.tensor) : 0;
  return unit * (shared + maps);
}

/** Parameters on the first stage: its share of the layers and the embedding, divided by the tensor ranks. */
export function stageParameters(model: Model, stages: number, tensor: number): number {
  return ((model.layers / stages) * layerParameters(model) + embeddingParameters(model)) / tensor;
}
