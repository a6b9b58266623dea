/** What a rank finds out about the machine it runs on: identity, NUMA node, NICs. Everything comes from /proc and /sys. */

import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { askedEngine } from './engine.js';
import { explainAddresses, usableAddresses } from './interfaces.js';
import type { HostIdentity, Member, Nic } from './member.js';

/** A file's text without white space at its ends; undefined where there is none. `root` lets a test invent a machine. */
function textOf(root: string, path: string): string | undefined {
  try {
    return readFileSync(join(root, path), 'utf8').trim();
  } catch {
    return undefined;
  }
}

function namesIn(root: string, path: string): string[] {
  try {
    return readdirSync(join(root, path)).sort();
  } catch {
    return [];
  }
}

/** The CPUs of a kernel list: '0-2,5' is 0, 1, 2, 5. */
function parseCpuList(text: string): number[] {
  const cpus: number[] = [];
  for (const part of text.split(',').filter((piece) => piece.trim() !== '')) {
    const [first, last = first] = part.split('-').map(Number);
    for (let cpu = first; cpu <= last; cpu++) cpus.push(cpu);
  }
  return cpus;
}

/** CPUs this process may use. */
function allowedCpus(root = '/'): number[] {
  const line = /^Cpus_allowed_list:\s*(\S+)/m.exec(textOf(root, 'proc/self/status') ?? '');
  return parseCpuList(line?.[1] ?? '0');
}

/** CPUs of each NUMA node, by node; one node with everything where the kernel tells nothing. */
export function numaNodes(root = '/'): number[][] {
  const nodes = namesIn(root, 'sys/devices/system/node').filter((name) => /^node\d+$/.test(name));
  const lists = nodes
    .map((name) => Number(name.slice(4)))
    .sort((a, b) => a - b)
    .map((node) => parseCpuList(textOf(root, `sys/devices/system/node/node${node}/cpulist`) ?? ''))
    .filter((cpus) => cpus.length > 0);
  return lists.length > 0 ? lists : [allowedCpus(root)];
}

/** CPUs of each core (its hardware threads), among those allowed. */
export function cores(root = '/'): number[][] {
  const found = new Map<string, number[]>();
  for (const cpu of allowedCpus(root)) {
    const siblings = textOf(root, `sys/devices/system/cpu/cpu${cpu}/topology/thread_siblings_list`) ?? String(cpu);
    found.set(siblings, [...(found.get(siblings) ?? []), cpu]);
  }
  return [...found.values()];
}

/** The NUMA node that holds all CPUs this process may use; -1: several do. */
function numaOf(root: string): number {
  const allowed = allowedCpus(root);
  const nodes = numaNodes(root);
  const own = nodes.findIndex((cpus) => allowed.every((cpu) => cpus.includes(cpu)));
  return own;
}

/** RDMA devices of the machine. */
function nicsOf(root: string): Nic[] {
  return namesIn(root, 'sys/class/infiniband').map((name) => {
    const numa = Number(textOf(root, `sys/class/infiniband/${name}/device/numa_node`) ?? -1);
    const ports = `sys/class/infiniband/${name}/ports`;
    const active = namesIn(root, ports).some((port) => textOf(root, `${ports}/${port}/state`)?.endsWith('ACTIVE'));
    return { name, numa: Number.isInteger(numa) ? numa : -1, active };
  });
}

/**
 * @param virtual index of a virtual host: ranks of different ones behave as if they were on different machines
 */
function identify(root: string, virtual: number | undefined): HostIdentity {
  const boot = textOf(root, 'proc/sys/kernel/random/boot_id') ?? hostname();
  let namespace = '';
  try {
    namespace = readlinkSync(join(root, 'proc/self/ns/pid'));
  } catch {
    // No namespaces: then there is only one.
  }
  const machine = `${boot} ${namespace} uid:${process.getuid?.() ?? 0}`;
  if (virtual === undefined) return { id: machine, machine, boot, name: hostname() };
  return { id: `${machine} virtual:${virtual}`, machine, boot, name: `${hostname()}/${virtual}`, virtual };
}

/** The name of this machine that ranks on it share. */
export function machineId(): string {
  return identify('/', undefined).machine;
}

export interface DescribeOptions {
  readonly virtualHost?: number | undefined;
  /** Interface, address or prefix that must be used. Default: the best one. */
  readonly interface?: string | undefined;
  /** 'verbs', 'ucx' or 'auto', the default. */
  readonly engine?: string | undefined;
  /** Where /proc and /sys are. Default '/'. */
  readonly root?: string;
}

/** This process as a member of a world. @throws LAUNCH_ENVIRONMENT for an interface that is not there, or an engine. */
export function describeSelf(rank: number, startTime: number, options: DescribeOptions = {}): Member {
  const { root = '/', virtualHost } = options;
  return {
    rank,
    host: identify(root, virtualHost),
    pid: process.pid,
    startTime,
    numa: numaOf(root),
    nics: nicsOf(root),
    addresses: usableAddresses(explainAddresses(options.interface)),
    engine: askedEngine(options.engine),
    node: process.version,
  };
}
