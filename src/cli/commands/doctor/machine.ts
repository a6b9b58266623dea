/** Processors, containers and the limits they set. */

import { arch, cpus } from 'node:os';
import { allowedCpus } from '../../cpus.js';
import type { HostFiles } from '../../host-files.js';
import { significant } from '../../size.js';
import type { Finding } from './finding.js';

const AREA = 'Machine';

/** Cores' worth of CPU time that the control group allows, or undefined for no limit. */
export function cpuQuota(files: HostFiles): number | undefined {
  const v2 = files.text('sys/fs/cgroup/cpu.max')?.split(/\s+/);
  if (v2) return v2[0] === 'max' ? undefined : Number(v2[0]) / Number(v2[1] ?? 100_000);
  const quota = files.number('sys/fs/cgroup/cpu/cpu.cfs_quota_us');
  const period = files.number('sys/fs/cgroup/cpu/cpu.cfs_period_us');
  return quota !== undefined && period !== undefined && quota > 0 && period > 0 ? quota / period : undefined;
}

/** Bytes that the control group allows, or undefined for no limit. */
export function memoryLimit(files: HostFiles): number | undefined {
  const text = files.text('sys/fs/cgroup/memory.max') ?? files.text('sys/fs/cgroup/memory/memory.limit_in_bytes');
  const limit = Number(text);
  // v1 writes a huge number for "no limit"
  return text === undefined || !Number.isFinite(limit) || limit > 2 ** 60 ? undefined : limit;
}

/** What contains this process: 'docker', 'podman', 'kubernetes', ... or undefined. */
export function containerKind(files: HostFiles, env: NodeJS.ProcessEnv = process.env): string | undefined {
  if (env['KUBERNETES_SERVICE_HOST']) return 'kubernetes';
  if (files.text('.dockerenv') !== undefined) return 'docker';
  if (files.text('run/.containerenv') !== undefined) return 'podman';
  if (env['container']) return env['container'];
  const groups = files.text('proc/1/cgroup') ?? '';
  return /docker|kubepods|containerd|lxc|podman/.exec(groups)?.[0];
}

export function machineFindings(files: HostFiles, env: NodeJS.ProcessEnv = process.env): Finding[] {
  const findings: Finding[] = [];
  const allowed = allowedCpus(files);
  const online = files.text('sys/devices/system/cpu/online') ?? '?';
  const model = /^(?:model name|Model)\s*:\s*(.+)$/m.exec(files.text('proc/cpuinfo') ?? '')?.[1] ?? cpus()[0]?.model;
  findings.push({
    area: AREA,
    what: 'processors',
    level: allowed.length >= 2 ? 'ok' : 'note',
    found: `${allowed.length} usable of CPUs ${online}, ${arch()}${model ? `, ${model}` : ''}`,
    advice:
      allowed.length >= 2
        ? undefined
        : 'two processes share one core: polling costs a time slice per message; use the event or adaptive mode',
    data: { usable: allowed, online, arch: arch(), model },
  });
  const quota = cpuQuota(files);
  findings.push({
    area: AREA,
    what: 'CPU quota',
    level: quota === undefined || quota >= 2 ? 'ok' : 'note',
    found: quota === undefined ? 'no limit' : `${significant(quota)} cores' worth`,
    advice:
      quota !== undefined && quota < 2
        ? 'two polling processes use two cores: below that the kernel pauses them; give more, or do not poll'
        : undefined,
    data: { cores: quota ?? null },
  });
  const nodes = files.list('sys/devices/system/node').filter((name) => /^node\d+$/.test(name));
  if (nodes.length > 1) {
    findings.push({
      area: AREA,
      what: 'NUMA',
      level: 'note',
      found: `${nodes.length} nodes`,
      advice: 'keep processes that share memory on one node: numactl --cpunodebind, or the cpu and numaNode options',
      data: { nodes: nodes.length },
    });
  }
  const container = containerKind(files, env);
  findings.push({
    area: AREA,
    what: 'container',
    level: 'ok',
    found: container ?? 'none',
    advice: container ? 'processes reach each other when they share the pid namespace and the user' : undefined,
    data: { kind: container ?? null },
  });
  return findings;
}
