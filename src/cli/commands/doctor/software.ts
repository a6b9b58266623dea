/** Programs and libraries that Verbena uses when they are there. */

import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { findProgram } from '../bench/child-program.js';
import type { Finding } from './finding.js';

const AREA = 'Software';
const OLDEST_NODE = [20, 19] as const;

/** Folders in which the dynamic linker looks, as far as it matters here. */
function libraryFolders(): string[] {
  const triplets = { x64: 'x86_64-linux-gnu', arm64: 'aarch64-linux-gnu' } as Record<string, string>;
  const triplet = triplets[process.arch];
  const own = (process.env['LD_LIBRARY_PATH'] ?? '').split(':').filter((dir) => dir !== '');
  const system = ['/usr/lib64', '/usr/lib', '/lib64', '/lib', '/usr/local/lib', '/opt/ucx/lib'];
  return [...own, ...(triplet ? [`/usr/lib/${triplet}`, `/lib/${triplet}`] : []), ...system];
}

/** The file of a shared library, or undefined: `findLibrary('libucp')` finds libucp.so.0. */
export function findLibrary(name: string, folders: readonly string[] = libraryFolders()): string | undefined {
  for (const folder of folders) {
    try {
      const file = readdirSync(folder).find((candidate) => candidate === `${name}.so` || candidate.startsWith(`${name}.so.`));
      if (file) return join(folder, file);
    } catch {
      // no such folder
    }
  }
  return undefined;
}

/** The first line that a program prints and that matches, or undefined. */
function versionOf(program: string, args: readonly string[], pattern: RegExp): string | undefined {
  if (!findProgram(program)) return undefined;
  const { stdout, stderr } = spawnSync(program, args, { encoding: 'utf8', timeout: 5000 });
  return pattern.exec(`${stdout}\n${stderr}`)?.[1];
}

/** Whether a Node version is new enough: 20.19 or later. */
export function isSupportedNode(version: string): boolean {
  const [major, minor] = version.split('.').map(Number);
  return major > OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor >= OLDEST_NODE[1]);
}

interface Library {
  readonly what: string;
  readonly found: string | undefined;
  readonly use: string;
  readonly install: string;
}

function libraryFinding({ what, found, use, install }: Library): Finding {
  return {
    area: AREA,
    what,
    level: found ? 'ok' : 'note',
    found: found ?? 'not found',
    advice: found ? undefined : `${use}: ${install}`,
    data: { found: found ?? null },
  };
}

export function softwareFindings(): Finding[] {
  const node = process.versions.node;
  const supported = isSupportedNode(node);
  const compiler = process.env['CC'] ?? 'cc';
  const ucx = versionOf('ucx_info', ['-v'], /[Vv]ersion:? (\S+)/);
  const ucp = findLibrary('libucp');
  const blas = findLibrary('libopenblas') ?? findLibrary('libopenblasp');
  const headers = existsSync('/usr/include/infiniband/verbs.h');
  return [
    {
      area: AREA,
      what: 'Node',
      level: supported ? 'ok' : 'problem',
      found: node,
      advice: supported ? undefined : `Verbena needs Node ${OLDEST_NODE.join('.')} or later`,
      data: { version: node },
    },
    libraryFinding({
      what: 'C compiler',
      found: versionOf(compiler.split(' ')[0], ['--version'], /^(.*)$/m),
      use: 'needed only where no prebuilt addon fits',
      install: 'apt-get install gcc libc6-dev',
    }),
    libraryFinding({
      what: 'UCX',
      found: ucx && ucp ? `${ucx}, ${ucp}` : (ucp ?? ucx),
      use: 'the ucx engine and its benchmark',
      install: 'apt-get install libucx0 ucx-utils',
    }),
    libraryFinding({ what: 'BLAS', found: blas, use: 'fast training', install: 'apt-get install libopenblas0-pthread' }),
    libraryFinding({
      what: 'libibverbs',
      found: findLibrary('libibverbs'),
      use: 'real NICs',
      install: 'apt-get install libibverbs1 librdmacm1 ibverbs-providers',
    }),
    libraryFinding({
      what: 'libibverbs headers',
      found: headers ? '/usr/include/infiniband/verbs.h' : undefined,
      use: 'building the ibverbs provider',
      install: 'apt-get install libibverbs-dev librdmacm-dev',
    }),
  ];
}
