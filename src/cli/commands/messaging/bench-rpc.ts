/** `verbena bench rpc`: three forms of a remote call, their latency and what they cost the target. */

import { defineCommand, type Outcome } from '../../command.js';
import { type CpuPair, measuringPair } from '../../cpus.js';
import { significant } from '../../size.js';
import { boxTable } from '../../table.js';
import { ChildProgram } from '../bench/child-program.js';
import { median } from '../bench/statistics.js';
import type { RpcAddress, RpcForm, RpcOpen } from './rpc-process.js';

const PROGRAM = new URL('./rpc-process.js', import.meta.url);
const FORMS: readonly RpcForm[] = ['two-sided', 'ring', 'one-sided'];
const WARM_UP = 2000;

interface FormResult {
  readonly form: RpcForm;
  /** Call to reply, microseconds, median over the rounds. */
  readonly latencyUs: number;
  /** CPU time of the target for one call, microseconds. */
  readonly targetCpuUs: number;
}

async function measureForm(
  form: RpcForm,
  options: { provider: string; size: number; calls: number; rounds: number },
  cpus: CpuPair,
  signal: AbortSignal,
): Promise<FormResult> {
  const server = new ChildProgram(PROGRAM, { cpus: [cpus[0]], signal });
  const client = new ChildProgram(PROGRAM, { cpus: [cpus[1]], signal });
  try {
    const open = (isServer: boolean): RpcOpen => ({ form, provider: options.provider, size: options.size, isServer });
    const [theirs, ours] = await Promise.all([
      server.request<RpcAddress>('start', open(true)),
      client.request<RpcAddress>('start', open(false)),
    ]);
    await Promise.all([server.request('connect', ours), client.request('connect', theirs)]);
    const round = async (count: number): Promise<[number, number]> => {
      if (form === 'one-sided') {
        await server.request('beginIdle');
        const latency = await client.request<number>('calls', count);
        return [latency, await server.request<number>('endIdle', count)];
      }
      const served = server.request<number>('serveCalls', count);
      const latency = await client.request<number>('calls', count);
      return [latency, await served];
    };
    await round(WARM_UP);
    const results: [number, number][] = [];
    for (let i = 0; i < options.rounds; i++) results.push(await round(options.calls));
    return {
      form,
      latencyUs: median(results.map(([latency]) => latency)),
      targetCpuUs: median(results.map(([, cpu]) => cpu)),
    };
  } finally {
    await Promise.all([server.close(), client.close()]);
  }
}

export const benchRpc = defineCommand({
  name: 'rpc',
  summary: "measures remote calls in three forms: latency, and the target's CPU time per call",
  description:
    'two-sided: SEND and RECV both ways. ring: each side writes into the ring of the other. one-sided: the client READs the answer, and the target does nothing. A ' +
    'polling target is busy all the time, so its CPU time per call is the time between calls; the one-sided target sleeps.',
  options: {
    size: { type: 'size', default: 64, min: 8, max: 4096, summary: 'bytes of the answer' },
    provider: { type: 'string', default: 'shm', value: 'NAME', summary: 'the device' },
    calls: { type: 'integer', default: 20_000, min: 100, max: 1_000_000, summary: 'calls of one round' },
    rounds: { type: 'integer', default: 5, min: 1, max: 50, summary: 'rounds' },
  },
  examples: [{ line: 'verbena bench rpc', note: 'The three forms side by side.' }],
  async run({ options, signal, style, progress }): Promise<Outcome> {
    const cpus = measuringPair();
    const results: FormResult[] = [];
    for (const form of FORMS) {
      progress(form);
      results.push(await measureForm(form, options, cpus, signal));
    }
    const text = () =>
      boxTable(
        [{ title: 'form' }, { title: 'latency', align: 'right' }, { title: 'target CPU per call', align: 'right' }],
        results.map(({ form, latencyUs, targetCpuUs }) => [
          form,
          `${significant(latencyUs)} us`,
          `${significant(targetCpuUs)} us`,
        ]),
        style,
      );
    return { document: { size: options.size, results, cpus }, text };
  },
});
