/**
 * Operators on single rows, fused: a chain of map, filter and flatMap, and what takes its rows, become one loop that is generated for them. So the functions
 * of the user can be inlined, and a row that only goes from one to the next need not be made.
 *
 * ```
 *   flatMap(f0), filter(f1), map(f2), sink                for (let i = 0; i < batch.length; i++) {
 *                                                           r0 = batch[i];
 *                                                           at = 0; for (const r1 of listOf(f0(r0))) {
 *                                                           at = 1; if (f1(r1)) {
 *                                                           at = 2; const r3 = f2(r1);
 *                                                           at = 3; sink(r3);
 *                                                         }}}
 * ```
 *
 * A first attempt knows of an error which function it was, and the row of the source. The attempt after it keeps every row, and counts, to name the record.
 */

import type { PlanNode } from '../plan/node.js';
import type { Batch, Task } from '../plan/task.js';
import { failureOf } from '../scheduler/failure.js';

type Rows = readonly unknown[];
type Sink = (row: unknown) => void;
/** Whose function threw. */
type Named = Pick<PlanNode, 'name' | 'site'>;

type Fail = (error: unknown, at: number, record: unknown, index: number) => unknown;
type Factory = (functions: readonly unknown[], sink: Sink, fail: Fail, listOf: typeof toArray) => (batch: Rows) => void;

function toArray(made: Iterable<unknown>): Rows {
  return Array.isArray(made) ? made : Array.from(made);
}

/** The loop of a chain, as source. `isCareful`: rows are kept and counted, for the error. */
function sourceOf(chain: readonly PlanNode[], isCareful: boolean): string {
  const declare = isCareful ? '' : 'const ';
  const rows = ['r0'];
  let body = '';
  let loops = 0;
  const enter = (at: number) => `at = ${at}; ${isCareful ? `n[${at}]++; ` : ''}`;
  for (const [i, { operator }] of chain.entries()) {
    const made = `f${i}(${rows[i]})`;
    const row = operator?.kind === 'filter' ? rows[i] : `r${i + 1}`;
    rows.push(row);
    body += enter(i);
    if (operator?.kind === 'filter') body += `if (!${made}) continue; `;
    else if (operator?.kind === 'map') body += `${declare}${row} = ${made}; `;
    else {
      body += `const l${i} = listOf(${made}); for (let k${i} = 0; k${i} < l${i}.length; k${i}++) { ${declare}${row} = l${i}[k${i}]; `;
      loops++;
    }
  }
  body += `${enter(chain.length)}sink(${rows[chain.length]}); ${'}'.repeat(loops)}`;
  return `'use strict';
    const [${chain.map((_, i) => `f${i}`).join(', ')}] = functions;
    const n = new Array(${rows.length}).fill(0);
    return (batch) => {
      let at = 0, ${isCareful ? [...new Set(rows)].join(', ') : 'r0'};
      try {
        for (let i = 0; i < batch.length; i++) { r0 = batch[i]; ${body} }
      } catch (error) {
        throw fail(error, at, ${isCareful ? `[${rows.join(', ')}][at], n[at] - 1` : 'r0, -1'});
      }
    };`;
}

/** Loops by who takes their rows: tasks of one operator share what the engine has learnt about it, and different operators do not. */
const factories = new WeakMap<Named, Map<string, Factory>>();

function factoryOf(chain: readonly PlanNode[], taker: Named, isCareful: boolean): Factory {
  const known = factories.get(taker) ?? new Map<string, Factory>();
  factories.set(taker, known);
  const shape = `${isCareful} ${chain.map(({ operator }) => operator?.kind).join()}`;
  const factory =
    known.get(shape) ?? (new Function('functions', 'sink', 'fail', 'listOf', sourceOf(chain, isCareful)) as Factory);
  known.set(shape, factory);
  return factory;
}

/** What runs a batch of the source through a chain and into the sink. */
function loopOf(chain: readonly PlanNode[], sink: Sink, taker: Named, partition: number, task: Task): (batch: Batch) => void {
  const functions = chain.map(({ operator }) => operator?.functionFor(partition));
  const fail: Fail = (error, at, record, index) => failureOf(error, chain[at] ?? taker, task, record, index);
  return factoryOf(chain, taker, task.batchRows === 1)(functions, sink, fail, toArray) as (batch: Batch) => void;
}

/** The operators that end in a node and run as one loop, and the node whose batches go into it. */
function chainOf(node: PlanNode): { chain: PlanNode[]; source: PlanNode } {
  const chain: PlanNode[] = [];
  let source = node;
  while (source.operator && !source.isCached) {
    chain.unshift(source);
    source = source.dependencies[0].parent;
  }
  return { chain, source };
}

/** Gives every row of a partition to a sink. `taker`: whose functions the sink calls. */
export async function eachRow(node: PlanNode, partition: number, task: Task, taker: Named, sink: Sink): Promise<void> {
  const { chain, source } = chainOf(node);
  await eachOf(source.compute(partition, task), loopOf(chain, sink, taker, partition, task), task);
}

/** The same for batches that are there already. */
export async function eachRowOf(batches: AsyncIterable<Batch>, task: Task, taker: Named, sink: Sink): Promise<void> {
  await eachOf(batches, loopOf([], sink, taker, task.partition, task), task);
}

async function eachOf(batches: AsyncIterable<Batch>, loop: (batch: Batch) => void, task: Task): Promise<void> {
  for await (const batch of batches) {
    loop(batch);
    await task.breathe();
  }
}

/** What an operator makes of their parent's rows, in batches. */
export async function* fused(node: PlanNode, partition: number, task: Task): AsyncGenerator<Rows> {
  const { chain, source } = chainOf(node.dependencies[0].parent);
  let out: unknown[] = [];
  const loop = loopOf([...chain, node], (row) => out.push(row), node, partition, task);
  for await (const batch of source.compute(partition, task)) {
    loop(batch);
    if (out.length > 0) yield out;
    out = [];
    await task.breathe();
  }
}
