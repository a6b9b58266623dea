/** Memory, and the limits that RDMA programs run into first: /dev/shm, locked memory, reading another process's memory. */

import { statfsSync } from 'node:fs';
import { lockedMemoryLimit, lockedMemoryWords } from '../../../verbs/providers/ibverbs/memory-lock.js';
import type { HostFiles } from '../../host-files.js';
import { formatSize } from '../../size.js';
import type { Finding } from './finding.js';
import { memoryLimit } from './machine.js';

const AREA = 'Memory';
const SMALL_SHM = 512 * 2 ** 20;

function kilobytes(text: string | undefined): number | undefined {
  const match = /^(\d+) kB$/.exec(text ?? '');
  return match ? Number(match[1]) * 1024 : undefined;
}

const YAMA: Readonly<Record<number, { level: Finding['level']; words: string; advice?: string }>> = {
  0: { level: 'ok', words: 'any process of the user' },
  1: {
    level: 'note',
    words: 'descendants, and whom a process names',
    advice: 'Verbena names its peers by itself (PR_SET_PTRACER); nothing to do',
  },
  2: {
    level: 'problem',
    words: 'administrators only',
    advice: 'private memory goes through the arena; sysctl kernel.yama.ptrace_scope=1 allows the direct way',
  },
  3: {
    level: 'problem',
    words: 'nobody, until the next boot',
    advice: 'private memory goes through the arena; kernel.yama.ptrace_scope must be 0 or 1 at boot for the direct way',
  },
};

function copyPermission(files: HostFiles): Finding {
  const scope = files.number('proc/sys/kernel/yama/ptrace_scope');
  const rule = scope === undefined ? { level: 'ok' as const, words: 'any process of the user (no Yama)' } : YAMA[scope];
  return {
    area: AREA,
    what: 'copies between processes',
    level: rule?.level ?? 'note',
    found: `${rule?.words ?? 'unknown rule'}${scope === undefined ? '' : ` (ptrace_scope ${scope})`}`,
    advice: rule && 'advice' in rule ? rule.advice : undefined,
    data: { ptraceScope: scope ?? null },
  };
}

function sharedMemory(path: string): Finding {
  const what = '/dev/shm';
  try {
    const { bsize, blocks, bavail } = statfsSync(path);
    const size = bsize * blocks;
    const small = size < SMALL_SHM;
    return {
      area: AREA,
      what,
      level: small ? 'note' : 'ok',
      found: `${formatSize(size)}, ${formatSize(bsize * bavail)} free`,
      advice: small
        ? 'Verbena does not use it (its segments have no name), but UCX and Open MPI do: docker run --shm-size=1g'
        : undefined,
      data: { bytes: size, free: bsize * bavail },
    };
  } catch {
    return { area: AREA, what, level: 'note', found: 'not there', advice: 'Verbena does not need it; UCX and Open MPI do' };
  }
}

/** @param shmPath where the memory file system is mounted; a test gives another folder. */
export function memoryFindings(files: HostFiles, shmPath = '/dev/shm'): Finding[] {
  const total = kilobytes(files.field('proc/meminfo', 'MemTotal'));
  const available = kilobytes(files.field('proc/meminfo', 'MemAvailable'));
  const limit = memoryLimit(files);
  const memlock = lockedMemoryLimit(files.text('proc/self/limits') ?? '');
  const isLow = memlock !== undefined && lockedMemoryWords(memlock).isLow;
  const hugePages = Number(files.field('proc/meminfo', 'HugePages_Total') ?? 0);
  const hugeSize = kilobytes(files.field('proc/meminfo', 'Hugepagesize'));
  const transparent = /\[(\w+)\]/.exec(files.text('sys/kernel/mm/transparent_hugepage/shmem_enabled') ?? '')?.[1];
  return [
    {
      area: AREA,
      what: 'memory',
      level: 'ok',
      found: total === undefined ? 'unknown' : `${formatSize(total)}, ${formatSize(available ?? 0)} available`,
      data: { total, available },
    },
    {
      area: AREA,
      what: 'memory limit',
      level: 'ok',
      found: limit === undefined ? 'no limit' : formatSize(limit),
      advice: limit === undefined ? undefined : 'shared memory counts against it',
      data: { bytes: limit ?? null },
    },
    sharedMemory(shmPath),
    {
      area: AREA,
      what: 'locked memory',
      level: isLow ? 'note' : 'ok',
      found: memlock === undefined ? 'unknown' : memlock === Number.POSITIVE_INFINITY ? 'no limit' : formatSize(memlock),
      advice: isLow
        ? 'shared memory does not need it; for a NIC: ulimit -l unlimited, or docker run --ulimit memlock=-1'
        : undefined,
      data: { bytes: memlock === Number.POSITIVE_INFINITY ? null : memlock },
    },
    copyPermission(files),
    {
      area: AREA,
      what: 'huge pages',
      level: 'ok',
      found: `${hugePages} of ${hugeSize === undefined ? '?' : formatSize(hugeSize)} set aside; transparent for shared memory: ${transparent ?? 'unknown'}`,
      advice: hugePages === 0 ? 'needed only for the hugePages option: sysctl vm.nr_hugepages=512' : undefined,
      data: { count: hugePages, pageBytes: hugeSize, transparent: transparent ?? null },
    },
  ];
}
