/** `verbena tune`: measures what messages cost on this machine and keeps it, so that protocols are chosen by it. */

import type { Costs } from '../../../messaging/index.js';
import { RegistrationCache } from '../../../messaging/memory/registration-cache.js';
import { tunedPath, writeTuned } from '../../../messaging/protocols/tuned-costs.js';
import { openDevice } from '../../../verbs/open-device.js';
import { defineCommand, type Outcome } from '../../command.js';
import { measuringPair } from '../../cpus.js';
import { significant } from '../../size.js';
import { tuneCollectives } from '../collectives/tune-collectives.js';
import { measureMessaging } from './bench-messaging.js';
import type { MessagingCase } from './messaging-case.js';

const COPY_BYTES = 64 << 10;
const COPIES = 2000;
const LOOKUPS = 20_000;

/** Bytes per second of a copy of a medium message, the best of several. */
function copySpeed(): number {
  const from = new Uint8Array(COPY_BYTES).fill(1);
  const to = new Uint8Array(COPY_BYTES);
  let best = 0;
  for (let round = 0; round < 5; round++) {
    const start = performance.now();
    for (let i = 0; i < COPIES; i++) to.set(from);
    best = Math.max(best, (COPY_BYTES * COPIES * 1000) / (performance.now() - start));
  }
  return best;
}

/** Nanoseconds to find a registration in the cache, the best of several. */
async function lookupNs(device: string): Promise<number> {
  using opened = await openDevice(device, { name: 'verbena tune' });
  const cache = new RegistrationCache(opened.allocPd());
  const bytes = new Uint8Array(4096);
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < 5; round++) {
    const start = performance.now();
    for (let i = 0; i < LOOKUPS; i++) cache.release(cache.acquire(bytes));
    best = Math.min(best, ((performance.now() - start) * 1e6) / LOOKUPS);
  }
  cache.close();
  return best;
}

export const tune = defineCommand({
  name: 'tune',
  summary: 'measures the constants that protocols and algorithms are chosen by, and keeps them',
  description:
    `Latency and rate of small messages, bandwidth of large reads, the speed of a copy and the cost of finding a registration; then what
collectives cost among processes of this host. They are kept in
the user's cache folder (VERBENA_TUNE_FILE names another file) by host and device, and used by every context that is opened afterwards. Run it on a
machine that does nothing else.`.replace(/\n/g, ' '),
  options: {
    engine: { type: 'string', default: 'shm', value: 'NAME', summary: 'the device, as openContext takes it' },
    'dry-run': { type: 'flag', summary: 'measure and print, keep nothing' },
  },
  examples: [{ line: 'verbena tune', note: 'Once per machine.' }],
  async run({ options, signal, progress }): Promise<Outcome> {
    const { engine } = options;
    const shared = { peers: [], rounds: 5, roundMs: 150, cpus: measuringPair(), signal, progress };
    const base: MessagingCase = { op: 'tag', metric: 'latency', size: 8, api: 'poll', memory: 'arena', engine };
    const measure = async (change: Partial<MessagingCase>) => (await measureMessaging({ ...base, ...change }, shared)).results[0];
    const latency = await measure({});
    const rate = await measure({ metric: 'rate' });
    const reads = await measure({ op: 'get', metric: 'bandwidth', size: 1 << 20 });
    const overheadNs = 1e9 / rate.max / 2;
    const costs: Partial<Costs> = {
      overheadNs,
      latencyNs: Math.max(1, latency.min * 1000 - overheadNs),
      bytesPerSecond: reads.max * 1e9,
      copyBytesPerSecond: copySpeed(),
      registrationNs: await lookupNs(engine),
      registrationNsPerByte: 0,
    };
    if (!options['dry-run']) writeTuned(engine.split(':')[0], costs);
    const { tuned, file: machines } = await tuneCollectives(signal, !options['dry-run'], progress);
    const lines = Object.entries(costs).map(([name, value]) => `${name.padEnd(22)} ${significant(value)}`);
    for (const { ranks, machine } of tuned) {
      const speed = ({ betaSecondsPerByte }: { betaSecondsPerByte: number }) => `${significant(1e-9 / betaSecondsPerByte)} GB/s`;
      lines.push(
        `collectives, ${ranks} ranks`.padEnd(22) +
          ` meeting ${significant((machine.callSeconds ?? 0) * 1e6)} us, message ${significant(machine.host.alphaSeconds * 1e6)} us and ${speed(machine.host)}, ` +
          `signal ${significant(machine.memory.alphaSeconds * 1e6)} us, reading a peer ${speed(machine.memory)}`,
      );
    }
    const where = options['dry-run'] ? 'not kept (--dry-run)' : `kept in ${tunedPath()} and ${machines}`;
    return {
      document: {
        engine,
        costs,
        collectives: tuned,
        file: options['dry-run'] ? undefined : tunedPath(),
        collectivesFile: options['dry-run'] ? undefined : machines,
      },
      text: [...lines, where].join('\n'),
    };
  },
});
