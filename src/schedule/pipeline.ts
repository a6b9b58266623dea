/**
 * Pipeline-parallel schedules: what one stage of a model does for m microbatches, as a pure generator of instructions.
 *
 * A model is cut into stages * parts pieces; piece c * stages + s is part c of stage s (one part, unless interleaved). Each microbatch runs
 * forward through all pieces and backward through them in reverse. The orders differ in when a stage turns to backward work:
 *
 *   GPipe           all forward, then all backward. Holds m activations.
 *   1F1B            as many forward as there are stages below, then one forward, one backward. The same bubble, but at most p - s activations.
 *   interleaved     1F1B over v parts per stage: the bubble shrinks by v; activations and traffic between stages grow.
 *   ZB-H1           backward split in two: the gradient of the input goes out at once, that of the weights fills what would be bubble.
 *
 *   p = 4, m = 4, 1F1B     stage 0   F0 F1 F2 F3 .  .  B0 B1 B2 B3
 *                          stage 1      F0 F1 F2 .  B0 F3 B1 B2 B3
 *                          stage 3            F0 B0 F1 B1 F2 B2 F3 B3
 *
 * Bubble over ideal time: GPipe and 1F1B (p - 1)/m, interleaved (p - 1)/(vm). Bubble over TOTAL time is another figure, (p - 1)/(m + p - 1). Time
 * lost by ZB-H1: (p - 1)(tF + tB - tW) against (p - 1)(tF + tB + tW), as long as tW <= tF and there are p microbatches or more.
 *
 * Sends complete at once (buffered); receives wait. That is all the synchronisation there is.
 * Papers: Huang et al., GPipe, NeurIPS 2019; Narayanan et al., PipeDream, SOSP 2019, and Megatron-LM, SC 2021; Qi et al., Zero bubble, ICLR 2024.
 */

/** What a stage does. `backward` is both halves at once. */
export type PipelineOperation =
  | 'receiveActivation'
  | 'forward'
  | 'sendActivation'
  | 'receiveGradient'
  | 'backward'
  | 'backwardInput'
  | 'backwardWeight'
  | 'sendGradient';

/** One step of a stage. */
export interface PipelineInstruction {
  readonly op: PipelineOperation;
  /** 0 .. microbatches - 1. */
  readonly microbatch: number;
  /** Which of the stage's parts of the model, 0 .. parts - 1. */
  readonly part: number;
  /** For sends and receives the other stage; otherwise the own one. */
  readonly peer: number;
}

/** The pipeline schedules. */
export type PipelineName = 'gpipe' | '1f1b' | 'interleaved' | 'zb-h1';

export interface PipelineOptions {
  /** Stages p, >= 1. */
  readonly stages: number;
  /** Microbatches m, >= 1; for `interleaved` a multiple of the stages. */
  readonly microbatches: number;
  /** Parts v of the model per stage, >= 1; only for `interleaved`. Default 1. */
  readonly parts?: number;
}

/** A unit of computing, before sends and receives are put around it. */
interface Work {
  readonly op: 'forward' | 'backward' | 'backwardInput' | 'backwardWeight';
  readonly microbatch: number;
  readonly part: number;
}

/** What `stage` does, in order. @throws RangeError when the numbers do not fit the schedule. */
export function* pipelineProgram(name: PipelineName, options: PipelineOptions, stage: number): Generator<PipelineInstruction> {
  const { stages, parts = 1 } = validated(name, options, stage);
  for (const { op, microbatch, part } of ORDERS[name](options, stage)) {
    const piece = part * stages + stage;
    const pieces = stages * parts;
    const at = (neighbour: number) => ({ microbatch, part, peer: neighbour % stages });
    const own = { microbatch, part, peer: stage };
    if (op === 'forward') {
      if (piece > 0) yield { op: 'receiveActivation', ...at(piece - 1) };
      yield { op, ...own };
      if (piece < pieces - 1) yield { op: 'sendActivation', ...at(piece + 1) };
    } else if (op === 'backwardWeight') yield { op, ...own };
    else {
      if (piece < pieces - 1) yield { op: 'receiveGradient', ...at(piece + 1) };
      yield { op, ...own };
      if (piece > 0) yield { op: 'sendGradient', ...at(piece - 1) };
    }
  }
}

const ORDERS: Readonly<Record<PipelineName, (options: PipelineOptions, stage: number) => Generator<Work>>> = {
  *gpipe({ microbatches }) {
    for (let microbatch = 0; microbatch < microbatches; microbatch++) yield { op: 'forward', microbatch, part: 0 };
    for (let microbatch = 0; microbatch < microbatches; microbatch++) yield { op: 'backward', microbatch, part: 0 };
  },

  *'1f1b'({ stages, microbatches }, stage) {
    const warm = Math.min(stages - 1 - stage, microbatches);
    for (let k = 0; k < microbatches + warm; k++) {
      if (k < microbatches) yield { op: 'forward', microbatch: k, part: 0 };
      if (k >= warm) yield { op: 'backward', microbatch: k - warm, part: 0 };
    }
  },

  *interleaved({ stages, microbatches, parts = 1 }, stage) {
    const units = microbatches * parts;
    const warm = Math.min(2 * (stages - 1 - stage) + (parts - 1) * stages, units);
    /** Unit k: groups of `stages` microbatches go through all parts before the next group enters. */
    const unit = (k: number): { microbatch: number; part: number } => {
      const [group, inside] = [Math.floor(k / (stages * parts)), k % (stages * parts)];
      return { microbatch: group * stages + (inside % stages), part: Math.floor(inside / stages) };
    };
    for (let k = 0; k < units + warm; k++) {
      if (k < units) yield { op: 'forward', ...unit(k) };
      if (k < warm) continue;
      const { microbatch, part } = unit(k - warm);
      yield { op: 'backward', microbatch, part: parts - 1 - part };
    }
  },

  *'zb-h1'({ stages, microbatches }, stage) {
    const warm = Math.min(stages - 1 - stage, microbatches);
    // Stage s keeps s weight gradients back: together with its p - s activations that is p in flight everywhere, as in 1F1B's first stage.
    for (let k = 0; k < microbatches + warm; k++) {
      if (k < microbatches) yield { op: 'forward', microbatch: k, part: 0 };
      if (k < warm) continue;
      yield { op: 'backwardInput', microbatch: k - warm, part: 0 };
      if (k - warm >= stage) yield { op: 'backwardWeight', microbatch: k - warm - stage, part: 0 };
    }
    for (let microbatch = Math.max(0, microbatches - stage); microbatch < microbatches; microbatch++)
      yield { op: 'backwardWeight', microbatch, part: 0 };
  },
};

function validated(name: PipelineName, options: PipelineOptions, stage: number): PipelineOptions {
  const { stages, microbatches, parts = 1 } = options;
  for (const [field, value] of Object.entries({ stages, microbatches, parts })) {
    if (!Number.isInteger(value) || value < 1) throw new RangeError(`${field} must be an integer >= 1, got ${value}`);
  }
  if (!(stage >= 0 && stage < stages)) throw new RangeError(`stage must be 0 .. ${stages - 1}, got ${stage}`);
  if (name !== 'interleaved' && parts !== 1)
    throw new RangeError(`${name} has one part per stage; use 'interleaved' for ${parts}`);
  if (name === 'interleaved' && microbatches % stages !== 0) {
    throw new RangeError(`interleaved needs microbatches (${microbatches}) to be a multiple of stages (${stages})`);
  }
  return options;
}

/** Durations of one whole stage's work on one microbatch; parts share it. `backward` takes both halves. */
export interface PipelineTimes {
  readonly forward: number;
  readonly backwardInput: number;
  readonly backwardWeight: number;
  /** From a send to the end of its receive. Default 0. */
  readonly transfer?: number;
}

/** How long a schedule takes, and how much it holds, in the units of its options. */
export interface PipelineTiming {
  /** From the first start to the last end. */
  readonly total: number;
  /** Computing time of one stage: total minus it is the bubble. */
  readonly ideal: number;
  /** Most activations a stage holds, in microbatches of the whole stage (parts count as fractions), per stage. */
  readonly inFlight: readonly number[];
  /** Start times of computing, per stage, in program order: what a drawing shows. */
  readonly starts: readonly (readonly {
    readonly instruction: PipelineInstruction;
    readonly start: number;
    readonly end: number;
  }[])[];
}

/** Exact event simulation of a pipeline schedule. @throws Error when the stages wait for each other in a circle. */
export function simulatePipeline(name: PipelineName, options: PipelineOptions, times: PipelineTimes): PipelineTiming {
  const { stages, microbatches, parts = 1 } = options;
  const durations: Partial<Record<PipelineOperation, number>> = {
    forward: times.forward / parts,
    backward: (times.backwardInput + times.backwardWeight) / parts,
    backwardInput: times.backwardInput / parts,
    backwardWeight: times.backwardWeight / parts,
  };
  const programs = Array.from({ length: stages }, (_, stage) => [...pipelineProgram(name, options, stage)]);
  const at = new Int32Array(stages);
  const clock = new Float64Array(stages);
  const held = new Float64Array(stages);
  const inFlight = new Array<number>(stages).fill(0);
  const starts: { instruction: PipelineInstruction; start: number; end: number }[][] = programs.map(() => []);
  const arrived = new Map<string, number>();
  const pieceOf = (stage: number, part: number): number => part * stages + stage;

  for (let moved = true; moved; ) {
    moved = false;
    for (let stage = 0; stage < stages; stage++) {
      for (; at[stage] < programs[stage].length; at[stage]++) {
        const i = programs[stage][at[stage]];
        const key = `${i.op === 'sendActivation' || i.op === 'receiveActivation' ? 'activation' : 'gradient'} ${i.microbatch} `;
        const duration = durations[i.op];
        if (duration !== undefined) {
          starts[stage].push({ instruction: i, start: clock[stage], end: clock[stage] + duration });
          clock[stage] += duration;
          held[stage] += i.op === 'forward' ? 1 / parts : i.op === 'backward' || i.op === 'backwardWeight' ? -1 / parts : 0;
          inFlight[stage] = Math.max(inFlight[stage], held[stage]);
        } else if (i.op === 'sendActivation')
          arrived.set(key + (pieceOf(stage, i.part) + 1), clock[stage] + (times.transfer ?? 0));
        else if (i.op === 'sendGradient') arrived.set(key + (pieceOf(stage, i.part) - 1), clock[stage] + (times.transfer ?? 0));
        else {
          const ready = arrived.get(key + pieceOf(stage, i.part));
          if (ready === undefined) break;
          clock[stage] = Math.max(clock[stage], ready);
        }
        moved = true;
      }
    }
  }
  const stuck = programs.findIndex((program, stage) => at[stage] < program.length);
  if (stuck !== -1) throw new Error(`${name}: stage ${stuck} waits for ever at ${JSON.stringify(programs[stuck][at[stuck]])}`);
  return {
    total: Math.max(...clock),
    ideal: microbatches * (times.forward + times.backwardInput + times.backwardWeight),
    inFlight,
    starts,
  };
}
