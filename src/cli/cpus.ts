/** Which CPUs a process may use, and which two of them to measure on. */

import { availableParallelism } from 'node:os';
import { UsageError } from './command.js';
import { HostFiles } from './host-files.js';

/** The CPUs of a kernel list: '0-2,5' is 0, 1, 2, 5. */
export function parseCpuList(text: string): number[] {
  const cpus: number[] = [];
  for (const part of text.split(',').filter((piece) => piece.trim() !== '')) {
    const [first, last = first] = part.split('-').map(Number);
    for (let cpu = first; cpu <= last; cpu++) cpus.push(cpu);
  }
  return cpus;
}

/** CPUs that this process may run on. */
export function allowedCpus(files = new HostFiles()): number[] {
  const list = files.field('proc/self/status', 'Cpus_allowed_list');
  return list ? parseCpuList(list) : Array.from({ length: availableParallelism() }, (_, cpu) => cpu);
}

/** Two CPUs for two processes; the same one twice when there is only one. */
export type CpuPair = readonly [number, number];

/**
 * The pair to measure on: two different cores (not two threads of one core) of one package where possible. The first CPU is avoided when
 * there is a choice, since interrupts like to land there.
 */
export function measuringPair(files = new HostFiles()): CpuPair {
  const allowed = allowedCpus(files);
  const candidates = allowed.length > 2 ? allowed.slice(1) : allowed;
  const first = candidates[0] ?? 0;
  const place = (cpu: number) => ({
    core: files.text(`sys/devices/system/cpu/cpu${cpu}/topology/thread_siblings_list`),
    package: files.text(`sys/devices/system/cpu/cpu${cpu}/topology/physical_package_id`),
  });
  const own = place(first);
  const others = candidates.filter((cpu) => cpu !== first);
  const otherCores = others.filter((cpu) => place(cpu).core !== own.core || own.core === undefined);
  const near = otherCores.find((cpu) => place(cpu).package === own.package);
  return [first, near ?? otherCores[0] ?? others[0] ?? first];
}

/** The pair that `--cpus` names, as in 0,1; without it the best one. @throws UsageError when they are not two CPUs that this process may use. */
export function givenPair(list: string | undefined): CpuPair {
  if (list === undefined) return measuringPair();
  const cpus = parseCpuList(list);
  if (cpus.length < 1 || cpus.length > 2 || cpus.some((cpu) => !Number.isInteger(cpu))) {
    throw new UsageError(`--cpus takes two CPU numbers, as in 0,1: got '${list}'`);
  }
  const allowed = allowedCpus();
  const strange = cpus.find((cpu) => !allowed.includes(cpu));
  if (strange !== undefined) {
    throw new UsageError(`--cpus: this process may not run on CPU ${strange}, only on ${allowed.join(', ')}`);
  }
  return [cpus[0], cpus[1] ?? cpus[0]];
}
