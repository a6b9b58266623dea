/**
 * A graph of computations: vertices with several inputs and outputs, edges that say how rows get from one to the other. It runs on the scheduler of all datasets: what
 * is forwarded stays in one task, every other edge is a shuffle, and what is lost is computed again.
 *
 * ```ts
 * const graph = dag({
 *   vertices: {
 *     numbers: { source: data.range(100) },
 *     split: { async *run({ inputs, emit }) { for await (const n of inputs.in) yield emit(n as number % 2 ? 'odd' : 'even', n); } },
 *     add: { tasks: 2, async *run({ inputs, emit }) { ... inputs.a, inputs.b ... } },
 *   },
 *   edges: [
 *     { from: 'numbers', to: 'split' },
 *     { from: 'split', output: 'odd', to: 'add', input: 'a', by: 'hash', key: (n) => n },
 *     { from: 'split', output: 'even', to: 'add', input: 'b', by: 'broadcast' },
 *   ],
 * });
 * await graph.output('add').collect();
 * ```
 */

import { Dataset } from './dataset.js';
import { DatasetError } from './errors.js';
import { oneToOne, PlanNode } from './plan/node.js';
import type { Batch } from './plan/task.js';
import { type EdgeKind, edgeNode } from './rows/edge.js';
import { batchesOf, Reading } from './rows/narrow.js';

/** A row on its way out of a vertex. Made by `emit`. */
export interface Emitted {
  readonly output: string;
  readonly row: unknown;
}

/** What a task of a vertex is given. */
export interface VertexContext {
  /** Rows by the name of the input; 'in' where an edge names none. */
  readonly inputs: Readonly<Record<string, AsyncIterable<unknown>>>;
  readonly partition: number;
  readonly tasks: number;
  /** What to yield: a row for an output, 'out' where none is named. */
  emit(output: string, row: unknown): Emitted;
}

/** A source of rows, or a computation that is run as several tasks. */
export type Vertex =
  | { readonly source: Dataset<unknown> }
  | {
      run(context: VertexContext): AsyncIterable<Emitted> | Iterable<Emitted>;
      /** Default: as many as its first input has where that is forwarded, else as the session. */
      readonly tasks?: number;
    };

/** Rows that go from an output of one vertex to an input of another. */
export interface Edge {
  readonly from: string;
  readonly to: string;
  /** Default 'out'. */
  readonly output?: string;
  /** Default 'in'. */
  readonly input?: string;
  /** 'forward': the same task (default); 'hash': by `key`; 'broadcast': every task gets all rows; 'gather': task 0 gets all rows; 'rebalance': in turn. */
  readonly by?: EdgeKind | 'forward';
  readonly key?: (row: never) => unknown;
}

export interface DagInit {
  /** The vertices by name. */
  readonly vertices: Readonly<Record<string, Vertex>>;
  /** How rows go between vertices; without circles. */
  readonly edges: readonly Edge[];
}

export interface Dag {
  /** The rows of an output, as a dataset. @throws DATASET_INVALID for a vertex that is not there. */
  output<T = unknown>(vertex: string, output?: string): Dataset<T>;
}

/** @throws DATASET_INVALID for edges to nowhere, a circle, two edges into one input, or a key that is missing. */
export function dag({ vertices, edges }: DagInit): Dag {
  check(vertices, edges);
  const engineOf = Object.values(vertices).find((vertex) => 'source' in vertex);
  if (!engineOf) throw new DatasetError('DATASET_INVALID', 'a graph needs at least one vertex with a source');
  const { engine } = (engineOf as { source: Dataset<unknown> }).source;
  const made = new Map<string, PlanNode>();
  const building = new Set<string>();
  const build = (name: string): PlanNode => {
    const ready = made.get(name);
    if (ready) return ready;
    if (building.has(name))
      throw new DatasetError('DATASET_INVALID', `the graph has a circle through ${[...building].join(', ')}`);
    building.add(name);
    const vertex = vertices[name];
    const node = 'source' in vertex ? tagged(vertex.source.node) : vertexNode(name, vertex, incoming(name));
    building.delete(name);
    // Several edges read it: computed once where memory allows.
    if (edges.filter(({ from }) => from === name).length > 1) node.isCached = true;
    made.set(name, node);
    return node;
  };
  const incoming = (name: string): [input: string, node: PlanNode, isForward: boolean][] =>
    edges
      .filter(({ to }) => to === name)
      .map(({ from, output = 'out', input = 'in', by = 'forward', key }) => {
        const rows = untagged(build(from), output);
        const { tasks } = vertices[name] as { tasks?: number };
        return [input, by === 'forward' ? rows : edgeNode(rows, by, tasks, key as (row: unknown) => unknown), by === 'forward'];
      });
  for (const name of Object.keys(vertices)) build(name);
  return {
    output<T>(vertex: string, output = 'out') {
      const node = made.get(vertex);
      if (!node)
        throw new DatasetError('DATASET_INVALID', `there is no vertex ${vertex}: there are ${[...made.keys()].join(', ')}`);
      return new Dataset<T>(engine, untagged(node, output));
    },
  };
}

function check(vertices: DagInit['vertices'], edges: readonly Edge[]): void {
  const inputs = new Set<string>();
  for (const { from, to, input = 'in', by = 'forward', key } of edges) {
    const missing = [from, to].find((name) => !Object.hasOwn(vertices, name));
    if (missing) throw new DatasetError('DATASET_INVALID', `an edge names a vertex ${missing}, which there is not`);
    if ('source' in vertices[to]) throw new DatasetError('DATASET_INVALID', `${to} is a source and takes no edge`);
    if (inputs.has(`${to}\0${input}`))
      throw new DatasetError('DATASET_INVALID', `two edges go into input ${input} of ${to}: name them apart`);
    inputs.add(`${to}\0${input}`);
    if ((by === 'hash') !== (key !== undefined)) {
      throw new DatasetError('DATASET_INVALID', `the edge from ${from} to ${to}: a key belongs to 'hash' and to nothing else`);
    }
  }
}

function tagged(parent: PlanNode): PlanNode {
  return new PlanNode({
    name: 'source',
    dependencies: [oneToOne(parent)],
    partitions: () => parent.partitions,
    async *compute(partition, task): AsyncIterable<Batch> {
      for await (const batch of parent.compute(partition, task))
        yield (batch as readonly unknown[]).map((row) => ({ output: 'out', row }));
    },
  });
}

function untagged(parent: PlanNode, output: string): PlanNode {
  return new PlanNode({
    name: 'output',
    words: output,
    dependencies: [oneToOne(parent)],
    partitions: () => parent.partitions,
    async *compute(partition, task): AsyncIterable<Batch> {
      for await (const batch of parent.compute(partition, task)) {
        const rows: unknown[] = [];
        for (const one of batch as readonly Emitted[]) if (one.output === output) rows.push(one.row);
        if (rows.length > 0) yield rows;
      }
    },
  });
}

function vertexNode(
  name: string,
  vertex: Exclude<Vertex, { source: unknown }>,
  inputs: readonly [input: string, node: PlanNode, isForward: boolean][],
): PlanNode {
  if (inputs.length === 0) throw new DatasetError('DATASET_INVALID', `vertex ${name} has neither a source nor an edge into it`);
  const node: PlanNode = new PlanNode({
    name,
    words: `inputs ${inputs.map(([input]) => input).join(', ')}`,
    dependencies: inputs.map(([, parent]) => oneToOne(parent)),
    partitions: () => {
      const counts = new Set(inputs.map(([, { partitions }]) => partitions));
      if (counts.size > 1) {
        const words = inputs.map(([input, { partitions }]) => `${input}: ${partitions}`).join(', ');
        throw new DatasetError(
          'DATASET_INVALID',
          `the inputs of ${name} have different numbers of tasks (${words}): give it \`tasks\``,
        );
      }
      return inputs[0][1].partitions;
    },
    async *compute(partition, task): AsyncIterable<Batch> {
      const reading = new Reading();
      const context: VertexContext = {
        inputs: Object.fromEntries(inputs.map(([input, parent]) => [input, reading.rows(parent, partition, task)])),
        partition,
        tasks: node.partitions,
        emit: (output, row) => ({ output, row }),
      };
      yield* batchesOf(() => vertex.run(context), node, task, reading);
    },
  });
  return node;
}
