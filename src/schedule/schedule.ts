/**
 * The schedule: a collective as a plain value, made by a pure function and then run, simulated, proved, drawn and explained.
 *
 * A schedule says, for `size` ranks, what each ONE of them does. It knows no element type, no byte count, no address and no
 * network; those are bound when it runs. Its parts:
 *
 *   rank program    A few **lanes**. A lane is strictly in order: an operation starts when the one before it in its lane has
 *                   completed. Different lanes run at the same time. An `after` instruction holds its lane until another lane of the
 *                   SAME rank has completed a given number of operations. That is the only local synchronisation.
 *
 *                     lane 0 (out)   send c2 ─────► after(in, 1) ► send c1 ─────► after(in, 2) ► send c0
 *                     lane 1 (in)    receive+reduce c1 ──────────► receive+reduce c0 ──────────► ...
 *
 *   chunk           The n elements of the collective are cut into `chunks` parts by ONE rule (`split.ts`): the first n mod k parts get
 *                   one element more, parts may be empty. Instructions name a range of chunks: `first`, `count`. A range
 *                   may run past the last chunk and then wraps to chunk 0 (cyclic ranges keep Bruck and rotated trees one
 *                   message per step); whoever runs it treats it as two pieces, cut at the wrap, on both sides alike.
 *
 *   buffer          A small integer into `buffers`. User buffers (`data`, `input`, `output`) come from the caller, scratch from the
 *                   executor. A buffer holds a **window** of the chunks (default: all), so an inner node of a gather tree
 *                   holds its subtree and not everything. A peer's buffers have the same ids; only those that hold all chunks are
 *                   read or written from outside, so nobody needs to know a peer's windows.
 *
 *   message         `send` at one rank, `receive` or `receiveReduce` at the other. Matching is in order per stream: the i-th post
 *                   (send, multicast or signal) from rank a to rank b on channel c meets the i-th take (receive, receiveReduce
 *                   or wait) at b from a on channel c. All posts of a stream stand in one lane of a, all its takes in one lane of b, so
 *                   the order is never in doubt; the prover checks that, and that kinds and lengths agree. No tags, no wildcards.
 *                   A message of zero elements is still a message.
 *
 *   completion      send: its source may be overwritten. receive, receiveReduce, read, readReduce: the data is in place. write: the data is
 *                   visible to the peer. signal: posted; everything its lane completed before is visible to whoever waits
 *                   for it. A send need not wait for the receiver, but it may: schedules are proved free of deadlock
 *                   when every send waits for its receive, and free of races when none does.
 *
 *   step            A label: the round to which an instruction belongs, the same at both ends of a message (a signal
 *                   may be awaited in a later one). Steps never fall inside a lane. They give drawings their
 *                   columns and simulators `at(rank, step)`; nothing waits for a step.
 *
 *   finish          A mark on the reduction that completes a chunk (all contributions in): an executor of `avg` scales there,
 *                   n/p elements instead of a second pass over n. The prover checks that it happens exactly once. With one rank there is no
 *                   reduction and nothing to finish.
 *
 * Ids >= `size` (there are `nodes - size` of them) are not ranks but helpers of the model: switches that reduce or parameter servers on hosts
 * of their own. They contribute nothing and own only scratch. Such schedules are simulated and proved, not executed.
 *
 * Programs are produced, never stored: `program(rank)` and `at(rank, step)` are generators, so 16,384 ranks cost nothing until asked for.
 * What executors run is the Int32Array of `encoding.ts`.
 */

/** What an instruction does. `read`, `readReduce`, `write` need the peer's memory within reach; all others run over messages too. */
export type Operation =
  /** Post `count` chunks of own `buffer` to `peer`. */
  | 'send'
  /** Post own chunks to every other node that takes from this stream (fabric multicast); counts as one message at the sender. */
  | 'multicast'
  /** Take a message from `peer` into own `buffer`. */
  | 'receive'
  /** Take a message from `peer` and reduce it into own `buffer` (own = own op message). The executor owns the landing space. */
  | 'receiveReduce'
  /** own `buffer` = own `otherBuffer`. */
  | 'copy'
  /** own `buffer` = own `buffer` op own `otherBuffer`. */
  | 'reduce'
  /** own `buffer` = `otherBuffer` of `peer`. */
  | 'read'
  /** own `buffer` = own `buffer` op `otherBuffer` of `peer`. */
  | 'readReduce'
  /** `otherBuffer` of `peer` = own `buffer`. */
  | 'write'
  /** Post an empty message to `peer`: "what I did before this is done". */
  | 'signal'
  /** Take an empty message from `peer`. */
  | 'wait'
  /** Hold this lane until lane `peer` of the same rank has completed `count` operations (its `after`s not counted). */
  | 'after';

/**
 * One instruction of one rank. One flat shape for all operations, so that consumers stay monomorphic; fields an operation does not use are 0
 * (`peer` is the rank itself for `copy` and `reduce`). Made by the functions of `instruction.ts`.
 */
export interface Instruction {
  readonly op: Operation;
  /** Lane of this rank, 0 .. schedule.lanes.length - 1. */
  readonly lane: number;
  /** Round label, 0 .. schedule.steps - 1. */
  readonly step: number;
  /** The other rank; for `after` the lane waited for; for `multicast` unused. */
  readonly peer: number;
  /** Stream number between two ranks, 0 .. 255; 0 unless an algorithm runs several streams between the same two ranks. */
  readonly channel: number;
  /** Own buffer id: the target, except for send, multicast and write where it is the source. */
  readonly buffer: number;
  /** First chunk in `buffer`. */
  readonly first: number;
  /** Number of chunks (0 for signal and wait); for `after` the number of operations waited for. */
  readonly count: number;
  /** copy, reduce: own source buffer. read, readReduce, write: the peer's buffer. */
  readonly otherBuffer: number;
  /** First chunk in `otherBuffer`. */
  readonly otherFirst: number;
  /** True on the reduction after which the target chunks hold every contribution. */
  readonly finish: boolean;
}

/** The collectives a schedule can claim to be; `contract.ts` says what each promises. v-forms are these with uneven splits. */
export type Collective =
  | 'allreduce'
  | 'sharded-allreduce'
  | 'reduce-scatter'
  | 'all-gather'
  | 'broadcast'
  | 'reduce'
  | 'gather'
  | 'scatter'
  | 'all-to-all'
  | 'barrier'
  | 'scan'
  | 'send-receive';

/** A cyclic range of chunks. `count` 0: nothing. */
export interface ChunkRange {
  readonly first: number;
  readonly count: number;
}

/** A buffer every rank has (perhaps empty). Its position in `Schedule.buffers` is its id. */
export interface BufferSpec {
  readonly name: string;
  /** `user`: given by the caller. `scratch`: allocated by the executor, contents undefined at the start. */
  readonly kind: 'user' | 'scratch';
  /** Chunks this rank's buffer holds, stored contiguously in cyclic order from `first`. Absent: all chunks. */
  readonly window?: (rank: number) => ChunkRange;
}

/** A lane. `reach` is what lets one collective run on several executors. */
export interface LaneSpec {
  readonly name: string;
  /** `any`: peers anywhere. `host`: only peers of the same host. `network`: only peers on other hosts. `memory`: uses read or write. */
  readonly reach: 'any' | 'host' | 'network' | 'memory';
}

export interface Schedule {
  readonly collective: Collective;
  /** Name of the algorithm, e.g. `ring`; `collective:algorithm` is unique. */
  readonly algorithm: string;
  /** Ranks that contribute or receive, >= 1. */
  readonly size: number;
  /** Ranks plus switches or servers of the model, >= size. Executable schedules have nodes === size. */
  readonly nodes: number;
  /** Root rank of rooted collectives; the distance of a send-receive shift; 0 elsewhere. */
  readonly root: number;
  /** Vectors that are combined: one per rank, except where each rank brings several shards (`sharded-allreduce`). */
  readonly contributions: number;
  /** Parts the elements are cut into, >= 1. Equals `size` where a chunk belongs to a rank (gather, all-to-all, ...). */
  readonly chunks: number;
  readonly buffers: readonly BufferSpec[];
  readonly lanes: readonly LaneSpec[];
  /** Number of step labels; 0 when nobody does anything. */
  readonly steps: number;
  /** All instructions of one node, lanes interleaved in a fair order (a lazy reader needs little look-ahead). */
  program(rank: number): Iterable<Instruction>;
  /** The instructions of one node with that step label. Cheap where `alike` is given. */
  at(rank: number, step: number): Iterable<Instruction>;
  /**
   * Steps with the same number have the same traffic pattern: the same pairs exchange the same number of chunks (chunk ids may differ, so bytes
   * differ by at most one element per chunk). A simulator computes one of them and repeats it: a ring of 16,384 ranks has 32,766 steps
   * and one pattern. Default: every step is its own pattern.
   */
  alike(step: number): number;
}

/** What an algorithm has to say; `defineSchedule` fills in the rest. Give `program` (short programs) or `at` (long regular ones). */
export interface ScheduleDefinition {
  readonly collective: Collective;
  readonly algorithm: string;
  readonly size: number;
  readonly nodes?: number;
  readonly root?: number;
  /** Default: size. */
  readonly contributions?: number;
  readonly chunks: number;
  readonly buffers: readonly BufferSpec[];
  readonly lanes: readonly LaneSpec[];
  readonly steps: number;
  readonly program?: (rank: number) => Iterable<Instruction>;
  readonly at?: (rank: number, step: number) => Iterable<Instruction>;
  readonly alike?: (step: number) => number;
}

/**
 * Completes a definition. @throws RangeError when sizes or the root make no sense, TypeError when neither `program` nor `at` is given.
 */
export function defineSchedule(definition: ScheduleDefinition): Schedule {
  const { size, root = 0, nodes = size, steps, chunks } = definition;
  if (!Number.isInteger(size) || size < 1) throw new RangeError(`size must be an integer >= 1, got ${size}`);
  if (!Number.isInteger(nodes) || nodes < size) throw new RangeError(`nodes must be an integer >= size (${size}), got ${nodes}`);
  if (!Number.isInteger(root) || root < 0 || root >= size) throw new RangeError(`root must be 0 .. ${size - 1}, got ${root}`);
  if (!Number.isInteger(chunks) || chunks < 1) throw new RangeError(`chunks must be an integer >= 1, got ${chunks}`);
  const program = definition.program ?? concatenation(definition);
  const at = definition.at ?? selection(program);
  return {
    collective: definition.collective,
    algorithm: definition.algorithm,
    size,
    nodes,
    root,
    contributions: definition.contributions ?? size,
    chunks,
    buffers: definition.buffers,
    lanes: definition.lanes,
    steps,
    program,
    at,
    alike: definition.alike ?? ((step) => step),
  };
}

function concatenation({ at, steps, algorithm }: ScheduleDefinition): (rank: number) => Iterable<Instruction> {
  if (at === undefined) throw new TypeError(`schedule '${algorithm}' defines neither program nor at`);
  return function* program(rank) {
    for (let step = 0; step < steps; step++) yield* at(rank, step);
  };
}

function selection(program: (rank: number) => Iterable<Instruction>): (rank: number, step: number) => Iterable<Instruction> {
  return function* at(rank, step) {
    for (const instruction of program(rank)) if (instruction.step === step) yield instruction;
  };
}
