/** `verbena bench patterns`: the steps of the design study, from a WRITE with an interrupt to a ring that is polled. */

import { defineCommand, type Outcome } from '../../command.js';
import { measuringPair } from '../../cpus.js';
import { formatCount, significant } from '../../size.js';
import { boxTable } from '../../table.js';
import { alternate } from '../bench/alternate.js';
import type { BenchCase } from '../bench/case.js';
import { verbena } from '../bench/ours/verbena.js';
import { zeromq } from '../bench/peers/node-messages.js';
import type { Missing } from '../bench/subject.js';
import { messagingSubject } from './messaging-subject.js';

const BUDGET_MS = 80_000;

interface Step {
  readonly step: string;
  readonly what: string;
  readonly messagesPerSecond: number;
  /** Over the step before. */
  readonly factor: number | undefined;
  /** What the study found, where it says. */
  readonly studyFactor: string;
}

export const benchPatterns = defineCommand({
  name: 'patterns',
  summary: 'repeats the steps of the design study: interrupt, ring, polling',
  description:
    'Step 0: one buffer, every message a WRITE that raises an event, and an answer before the next. Step 1: a ring region, so the sender need not wait; the receiver ' +
    'still sleeps on events. Step 2: the receiver polls on a core of its own. With ZeroMQ beside them where it is installed. Messages per second, and the factor of each step.',
  options: {
    size: { type: 'size', default: 64, min: 8, max: 65_536, summary: 'payload of one message' },
    provider: { type: 'string', default: 'shm', value: 'NAME', summary: 'the device' },
    rounds: { type: 'integer', default: 5, min: 5, max: 50, summary: 'rounds of each step, in turn' },
    'round-ms': { type: 'integer', default: 200, min: 20, max: 5000, value: 'MS', summary: 'length of one round' },
  },
  examples: [{ line: 'verbena bench patterns', note: 'The three steps and their factors.' }],
  async run({ options, signal, style, progress }): Promise<Outcome> {
    const { size, provider, rounds } = options;
    const cpus = measuringPair();
    const shared = { rounds, roundMs: options['round-ms'], cpus, signal, progress };
    const deadline = () => performance.now() + BUDGET_MS / 4;
    const p50 = async (bench: BenchCase, subject: ReturnType<typeof verbena>): Promise<number> => {
      const { measured } = await alternate(bench, [subject], { ...shared, deadline: deadline() });
      return measured[0].summary.p50;
    };
    const interrupt: BenchCase = { op: 'write', metric: 'latency', size, mode: 'event', memory: 'arena' };
    const rate: BenchCase = { op: 'send', metric: 'rate', size, mode: 'event', memory: 'arena' };
    const tag = { op: 'tag', metric: 'rate', size, memory: 'arena', engine: provider } as const;
    const roundTripUs = 2 * (await p50(interrupt, verbena(provider)));
    const ring = await p50(rate, messagingSubject({ ...tag, api: 'promise', mode: 'event' }));
    const polled = await p50(rate, messagingSubject({ ...tag, api: 'poll' }));
    const missing: Record<string, Missing> = {};
    const lack = await zeromq.missing();
    let theirs: number | undefined;
    if (lack) missing['zeromq'] = lack;
    else theirs = await p50(rate, zeromq);
    const first = 1e6 / roundTripUs;
    const steps: Step[] = [
      { step: '0', what: 'WRITE + event, one at a time', messagesPerSecond: first, factor: undefined, studyFactor: '' },
      { step: '1', what: '+ ring region', messagesPerSecond: ring, factor: ring / first, studyFactor: 'over 10' },
      { step: '2', what: '+ polling on a core of its own', messagesPerSecond: polled, factor: polled / ring, studyFactor: '1.5' },
    ];
    const document = {
      size,
      steps,
      zeromq: theirs === undefined ? undefined : { messagesPerSecond: theirs, step2OverZeromq: polled / theirs },
      missing: Object.fromEntries(Object.entries(missing).map(([who, { install }]) => [who, install])),
    };
    const text = () => {
      const rows = steps.map(({ step, what, messagesPerSecond, factor, studyFactor }) => [
        step,
        what,
        `${formatCount(messagesPerSecond)}/s`,
        factor === undefined ? '' : `${significant(factor)}x`,
        studyFactor === '' ? '' : `${studyFactor}x`,
      ]);
      if (theirs !== undefined) rows.push(['', 'zeromq.js', `${formatCount(theirs)}/s`, '', '']);
      const head = [
        { title: 'step' },
        { title: 'what' },
        { title: 'messages', align: 'right' },
        { title: 'factor', align: 'right' },
        { title: 'in the study', align: 'right' },
      ] as const;
      return boxTable(head, rows, style);
    };
    return { document, text };
  },
});
