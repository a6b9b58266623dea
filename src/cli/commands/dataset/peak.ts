/** Peaks of memory, looked at a few times a second: own pages and shared memory. Pages of mapped files are the page cache's, which lets them go when memory is short. */

import { readdirSync, readFileSync } from 'node:fs';

function bytesOf(pid: number | 'self'): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    const of = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0) * 1024;
    return of('RssAnon') + of('RssShmem');
  } catch {
    return 0; // it has ended
  }
}

function childrenOf(pid: number): number[] {
  try {
    const tasks = readdirSync(`/proc/${pid}/task`);
    const lists = tasks.map((task) => readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8'));
    return lists.flatMap((list) => list.split(' ').filter(Boolean).map(Number));
  } catch {
    return [];
  }
}

function treeBytes(pid: number): number {
  return childrenOf(pid).reduce((sum, child) => sum + treeBytes(child), bytesOf(pid));
}

/** The most that a process and its children have had from now on, bytes; without a pid, this process alone. */
export function watchPeak(pid?: number): () => number {
  let most = 0;
  const look = () => {
    most = Math.max(most, pid === undefined ? bytesOf('self') : treeBytes(pid));
    return most;
  };
  look();
  const timer = setInterval(look, 100).unref();
  return () => {
    const peak = look();
    if (pid !== undefined && bytesOf(pid) === 0) clearInterval(timer);
    return peak;
  };
}
