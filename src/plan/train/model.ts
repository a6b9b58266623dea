/**
 * A transformer as the planner sees it: its sizes, its parameters, its floating-point operations.
 *
 * Per layer: 12 h^2 + 13 h parameters; forward 24 b s h^2 + 4 b s^2 h operations for b sequences of s tokens. Backward is twice forward; full recomputation is
 * one forward more. 6 x parameters x tokens is the usual short form of the whole.
 */
import { PlanRefusal, requireInteger } from '../refusal.js';

export interface Model {
  readonly name: string;
  readonly layers: number;
  readonly hidden: number;
  readonly heads: number;
  /** Tokens per sequence. */
  readonly sequence: number;
  readonly vocabulary: number;
  /** Sequences per step, over all devices. */
  readonly batch: number;
}

/** Transformers by name. */
export const models: readonly Model[] = [
  { name: 'gpt2-1.5b', layers: 48, hidden: 1600, heads: 25, sequence: 1024, vocabulary: 50_257, batch: 512 },
  { name: 'gpt3-6.7b', layers: 32, hidden: 4096, heads: 32, sequence: 2048, vocabulary: 51_200, batch: 1024 },
  { name: 'gpt3-13b', layers: 40, hidden: 5120, heads: 40, sequence: 2048, vocabulary: 51_200, batch: 1024 },
  { name: 'gpt3-175b', layers: 96, hidden: 12_288, heads: 96, sequence: 2048, vocabulary: 51_200, batch: 1536 },
  { name: 'gpt-530b', layers: 105, hidden: 20_480, heads: 128, sequence: 2048, vocabulary: 51_200, batch: 1920 },
];

/** A model by name, or from JSON with all fields of `Model`. */
export function parseModel(text: string): Model {
  if (text.trim().startsWith('{')) return checkModel(JSON.parse(text) as Model);
  const found = models.find((model) => model.name === text);
  if (found === undefined)
    throw new PlanRefusal(
      `there is no model "${text}"; there are ${models.map((model) => model.name).join(', ')}, or a JSON description`,
      'gpt3-175b',
    );
  return found;
}

function checkModel(model: Model): Model {
  for (const field of ['layers', 'hidden', 'heads', 'sequence', 'vocabulary', 'batch'] as const)
    requireInteger(`model.${field}`, model[field], 1);
  if (model.hidden % model.heads !== 0) {
    throw new PlanRefusal(
      `hidden size ${model.hidden} is not divisible by ${model.heads} heads`,
      `hidden ${Math.round(model.hidden / model.heads) * model.heads}`,
    );
  }
  return { ...model, name: model.name ?? 'model' };
}

export function layerParameters(model: Model): number {
  return 12 * model.hidden ** 2 + 13 * model.hidden;
}

/** Token and position embeddings. */
export function embeddingParameters(model: Model): number {
  return (model.vocabulary + model.sequence) * model.hidden;
}

/** How many parameters a model has. */
export function parameters(model: Model): number {
  return model.layers * layerParameters(model) + embeddingParameters(model) + 2 * model.hidden;
}

/** Forward operations of one layer for `sequences` sequences. */
export function layerForwardFlops(model: Model, sequences: number): number {
  const { hidden: h, sequence: s } = model;
  return 24 * sequences * s * h ** 2 + 4 * sequences * s ** 2 * h;
}

/** Forward operations of the output projection for `sequences` sequences. */
export function outputForwardFlops(model: Model, sequences: number): number {
  return 2 * sequences * model.sequence * model.hidden * model.vocabulary;
}

/** Operations of a training step, forward and backward, without recomputation. */
export function stepFlops(model: Model): number {
  return 3 * (model.layers * layerForwardFlops(model, model.batch) + outputForwardFlops(model, model.batch));
}
