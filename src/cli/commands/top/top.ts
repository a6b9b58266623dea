/** `verbena top`: a live table of all Verbena devices of the user. */

import { setTimeout as delay } from 'node:timers/promises';
import { counterRates, ZERO_COUNTERS } from '../../../observe/counters.js';
import type { CounterTotals, DeviceSnapshot } from '../../../observe/index.js';
import { defineCommand } from '../../command.js';
import { formatCount, formatSize } from '../../size.js';
import type { Style } from '../../style.js';
import { type Column, plainTable } from '../../table.js';
import { findDevices } from './devices.js';

interface Rated extends DeviceSnapshot {
  readonly rates: CounterTotals;
  readonly queuePairRates: readonly CounterTotals[];
  readonly completionQueueRates: readonly CounterTotals[];
}

/** Devices of `after` with their rates since `before`; what was not there before counts from zero. */
export function rate(before: readonly DeviceSnapshot[], after: readonly DeviceSnapshot[], seconds: number): Rated[] {
  const earlier = new Map(before.map((device) => [device.key, device]));
  return after.map((device) => {
    const old = earlier.get(device.key);
    const oldPairs = new Map(old?.queuePairs.map((qp) => [qp.qpNum, qp.counters]));
    const oldQueues = new Map(old?.completionQueues.map((cq) => [cq.cqNum, cq.counters]));
    return {
      ...device,
      completionQueueRates: device.completionQueues.map((cq) =>
        counterRates(oldQueues.get(cq.cqNum) ?? ZERO_COUNTERS, cq.counters, seconds),
      ),
      rates: counterRates(old?.counters ?? ZERO_COUNTERS, device.counters, seconds),
      queuePairRates: device.queuePairs.map((qp) => counterRates(oldPairs.get(qp.qpNum) ?? ZERO_COUNTERS, qp.counters, seconds)),
    };
  });
}

const HEAD: readonly Column[] = [
  { title: 'PID', align: 'right' },
  { title: 'DEVICE' },
  { title: 'QP' },
  { title: 'STATE' },
  { title: 'OPS/S', align: 'right' },
  { title: 'BYTES/S', align: 'right' },
  { title: 'RECV/S', align: 'right' },
  { title: 'COPIED/S', align: 'right' },
  { title: 'SYSCALLS/S', align: 'right' },
  { title: 'ERRORS', align: 'right' },
  { title: 'MEMORY', align: 'right' },
];

function rateCells(rates: CounterTotals, errors: number, style: Style): string[] {
  const bytes = (value: number) => (value === 0 ? '0' : formatSize(value));
  return [
    formatCount(rates.operations),
    bytes(rates.bytes),
    formatCount(rates.received),
    bytes(rates.bytesCopied),
    formatCount(rates.systemCalls),
    errors > 0 ? style.red(String(errors)) : '0',
  ];
}

/** The table of one reading. With `pairs` each queue pair and completion queue gets a row below its device. */
export function topText(devices: readonly Rated[], style: Style, pairs: boolean): string {
  if (devices.length === 0) {
    return 'No Verbena process of this user has a device open. Start one, such as `verbena demo`, and look again.';
  }
  const rows = devices.flatMap((device) => {
    const states = [...new Set(device.queuePairs.map((qp) => qp.state))].join(' ');
    const count = `${device.queuePairs.length} ${device.queuePairs.length === 1 ? 'pair' : 'pairs'}`;
    const cells = rateCells(device.rates, device.counters.errors, style);
    const own = [String(device.pid), style.bold(device.name), count, states, ...cells, formatSize(device.segmentBytes)];
    if (!pairs) return [own];
    const below = device.queuePairs.map((qp, i) => {
      const to = qp.destination === undefined ? '' : ` → ${qp.destination}`;
      const state = qp.state === 'ERR' ? style.red(qp.state) : qp.state;
      return [
        '',
        style.dim('└'),
        `${qp.type} ${qp.qpNum}${to}`,
        state,
        ...rateCells(device.queuePairRates[i], qp.counters.errors, style),
        '',
      ];
    });
    const queues = device.completionQueues.map((cq, i) => [
      '',
      style.dim('└'),
      `CQ ${cq.cqNum}`,
      `depth ${cq.depth}`,
      ...rateCells(device.completionQueueRates[i], cq.counters.errors, style),
      '',
    ]);
    const counted = Object.entries(device.transport ?? {}).flatMap(([name, count]) =>
      count > 0 ? [`${name} ${formatCount(count)}`] : [],
    );
    const transport = counted.map((words) => ['', style.dim('└'), words, ...Array<string>(8).fill('')]);
    return [own, ...below, ...queues, ...transport];
  });
  return plainTable(HEAD, rows, style);
}

const CLEAR = '\x1b[H\x1b[2J';

export const top = defineCommand({
  name: 'top',
  summary: 'shows live what all Verbena processes of the user do',
  description:
    'One row for each open device: operations, bytes and system calls per second, errors, shared memory. The counters stand in shared memory, ' +
    'so a process that is blocked in a loop shows as well as one that is not, and looking costs it nothing.\n\n' +
    'Ends with Ctrl-C. Without a terminal, and with --json, it takes one reading over one interval and ends.',
  options: {
    interval: {
      type: 'number',
      default: 1,
      min: 0.05,
      max: 3600,
      value: 'SECONDS',
      summary: 'time between two readings, seconds',
    },
    once: { type: 'flag', summary: 'show one reading and end' },
    qps: { type: 'flag', summary: 'a row for each queue pair and completion queue too; of roce, what the device counted' },
  },
  examples: [
    { line: 'verbena top', note: 'A table that renews itself every second.' },
    { line: 'verbena top --qps --interval 0.2', note: 'Each queue pair, five times a second.' },
    { line: 'verbena top --once --json', note: 'Totals and rates of every device and queue pair, for a program.' },
  ],
  async run({ options, style, interactive, screen, signal }) {
    let before = findDevices();
    let since = performance.now();
    for (;;) {
      try {
        await delay(options.interval * 1000, undefined, { signal });
      } catch {
        return { document: { devices: [] }, text: '' };
      }
      const after = findDevices();
      const now = performance.now();
      const devices = rate(before, after, (now - since) / 1000);
      if (options.once || !interactive) return { document: { devices }, text: () => topText(devices, style, options.qps) };
      const title = `${style.bold('verbena top')}  ${style.dim(`${devices.length} devices, every ${options.interval} s, Ctrl-C ends`)}`;
      screen(`${CLEAR}${title}\n\n${topText(devices, style, options.qps)}\n`);
      before = after;
      since = now;
    }
  },
});
