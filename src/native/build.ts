/**
 * Finds or makes the compiled addon.
 *
 * Verbena ships C sources, and prebuilt binaries where there are some. No install script runs (package managers block them);
 * instead the first process that needs the addon compiles it with the system's C compiler, in a second or two:
 *
 *   1. prebuilds/linux-<arch>-glibc/verbena.node      when its verbena.node.hash equals the hash of the sources
 *   2. build/verbena-<arch>-<hash>.node               in the package, when it may be written
 *   3. ~/.cache/verbena/…                             ($XDG_CACHE_HOME) when the package is read-only
 *   4. <tmp>/verbena-<uid>/…                          when there is no home either
 *
 * The hash covers every file in native/ and the flags, so an edited source or a changed flag never meets an old binary. In
 * an installed package sources do not change under a version: there the hash recorded by the build (dist/native.sha256) is
 * read instead of computed. A git clone always computes it, which costs a few milliseconds.
 *
 * Directories outside the package are used only when they belong to this user and nobody else may write there: a shared
 * object is code.
 */
import type { SpawnSyncReturns } from 'node:child_process';
import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism, homedir, tmpdir } from 'node:os';
import { basename, dirname, isAbsolute, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { withBuildLock } from './build-lock.js';

/** For what only a build needs: importing node:child_process and node:crypto takes longer than opening a built addon. */
const require = createRequire(import.meta.url);

/** `-z nodelete`: the addon has threads of its own, so its code must outlive the last worker that loaded it. */
const COMPILE_FLAGS = ['-fPIC', '-O3', '-std=gnu11', '-Wall', '-Wextra', '-pthread', '-fvisibility=hidden'];
const LINK_FLAGS = ['-shared', '-pthread', '-Wl,-z,nodelete', '-Wl,-z,relro', '-Wl,--as-needed'];
const LIBRARIES = ['-lm', '-ldl', '-lrt'];

/** Why the addon cannot be had. `code` is stable. */
export class AddonError extends Error {
  readonly code:
    | 'VERBENA_NO_COMPILER'
    | 'VERBENA_COMPILE_FAILED'
    | 'VERBENA_UNSUPPORTED_PLATFORM'
    | 'VERBENA_NO_BUILD_DIRECTORY'
    | 'VERBENA_NO_LIBRARY';

  constructor(code: AddonError['code'], message: string) {
    super(message);
    this.name = 'AddonError';
    this.code = code;
  }
}

/** An addon of its own for a library that not every machine has: its sources are native/<name>/*.c, and it is built when it is asked for. */
export interface OptionalAddon {
  readonly name: string;
  /** Linker flags. */
  readonly libraries: readonly string[];
  /** Debian packages that provide headers and library. */
  readonly packages: string;
}

export interface BuildOptions {
  /** Which addon. Default: Verbena's own. */
  addon?: OptionalAddon;
  /** The package's root directory. Default: the package this file belongs to. */
  packageDir?: string;
  /** Environment to read CC, HOME and XDG_CACHE_HOME from, and to run the compiler in. Default: process.env. */
  env?: NodeJS.ProcessEnv;
  /** Take a prebuilt binary when there is a matching one. Default: true. */
  prebuilds?: boolean;
}

/** Root of the package this module was built into: the nearest directory above with Verbena's package.json. */
function findPackageDir(): string {
  let dir = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(dir, 'package.json')) || !existsSync(join(dir, 'native'))) {
    if (dir === dirname(dir))
      throw new Error(`verbena's package directory was not found above ${fileURLToPath(import.meta.url)}`);
    dir = dirname(dir);
  }
  return dir;
}

/** Headers of native/ that optional addons use too. */
const SHARED_HEADERS = ['door.h', 'uv.h'];

function sourceDirectory(packageDir: string, addon: OptionalAddon | undefined): string {
  return join(packageDir, 'native', addon?.name ?? '');
}

/** C sources of the addon, in a stable order: every .c file directly in native/, or in the folder of an optional addon. */
function sourceFiles(packageDir: string, addon: OptionalAddon | undefined): string[] {
  const dir = sourceDirectory(packageDir, addon);
  const names = readdirSync(dir).filter((name) => name.endsWith('.c'));
  return names.sort().map((name) => join(dir, name));
}

/** Hash of the C sources, headers and flags, as 16 hex digits. Reads every file in the addon's folder. */
export function hashSources(packageDir = findPackageDir(), addon?: OptionalAddon): string {
  const { createHash } = require('node:crypto') as typeof import('node:crypto');
  const libraries = addon?.libraries ?? LIBRARIES;
  const hash = createHash('sha256').update([...COMPILE_FLAGS, ...LINK_FLAGS, ...libraries].join(' '));
  const dir = sourceDirectory(packageDir, addon);
  for (const name of readdirSync(dir).sort()) {
    if (/\.[ch]$/.test(name)) hash.update(`\0${name}\0`).update(readFileSync(join(dir, name)));
  }
  for (const name of addon === undefined ? [] : SHARED_HEADERS) hash.update(readIfThere(join(packageDir, 'native', name)) ?? '');
  return hash.digest('hex').slice(0, 16);
}

function readIfThere(file: string): string | undefined {
  try {
    return readFileSync(file, 'latin1').trim();
  } catch {
    return undefined;
  }
}

function sourceHash(packageDir: string, addon: OptionalAddon | undefined): string {
  if (addon !== undefined) return hashSources(packageDir, addon);
  const recorded = existsSync(join(packageDir, '.git')) ? undefined : readIfThere(join(packageDir, 'dist', 'native.sha256'));
  return recorded ?? hashSources(packageDir);
}

/** Where this platform's prebuilt binary lives in the package. */
export function prebuildPath(packageDir = findPackageDir()): string {
  return join(packageDir, 'prebuilds', `linux-${process.arch}-glibc`, 'verbena.node');
}

function outputDirectories(packageDir: string, env: NodeJS.ProcessEnv): { dir: string; private: boolean }[] {
  const xdg = env['XDG_CACHE_HOME'];
  const cache = xdg && isAbsolute(xdg) ? xdg : join(env['HOME'] || homedir(), '.cache');
  return [
    { dir: join(packageDir, 'build'), private: false },
    { dir: join(cache, 'verbena'), private: true },
    { dir: join(env['TMPDIR'] || tmpdir(), `verbena-${process.getuid?.()}`), private: true },
  ];
}

/** Whether `dir` is a real directory of this user that no one else may write to. */
function isPrivate(dir: string): boolean {
  const stat = lstatSync(dir);
  return stat.isDirectory() && stat.uid === process.getuid?.() && (stat.mode & 0o022) === 0;
}

function checkPlatform(): void {
  const isMusl = () => {
    const { header } = process.report.getReport() as unknown as { header: { glibcVersionRuntime?: string } };
    return header.glibcVersionRuntime === undefined;
  };
  const system = process.platform !== 'linux' ? process.platform : isMusl() ? 'Linux with musl' : undefined;
  if (system !== undefined) {
    throw new AddonError('VERBENA_UNSUPPORTED_PLATFORM', `verbena runs on Linux with glibc only, and this is ${system}.`);
  }
}

export interface CompileOptions extends Pick<BuildOptions, 'packageDir' | 'env' | 'addon'> {
  /** Flags after the usual ones, e.g. sanitizers. Default: none. */
  flags?: readonly string[];
}

/**
 * Names of the object files in `directory`, one a source. A name covers the source, all headers, compiler and flags, so that after an edit only what
 * changed is compiled again.
 */
function objectFiles(sources: readonly string[], directory: string, compiler: readonly string[]): string[] {
  const { createHash } = require('node:crypto') as typeof import('node:crypto');
  const common = createHash('sha256').update(compiler.join('\0'));
  const native = dirname(sources[0]);
  for (const name of readdirSync(native).sort())
    if (name.endsWith('.h')) common.update(name).update(readFileSync(join(native, name)));
  for (const name of SHARED_HEADERS) common.update(readIfThere(join(dirname(native), name)) ?? '');
  return sources.map((source) => {
    const hash = common.copy().update(readFileSync(source)).digest('hex').slice(0, 16);
    return join(directory, `${basename(dirname(source))}-${basename(source, '.c')}-${hash}.o`);
  });
}

/**
 * Compiles native/*.c into the shared object `output`, by way of a temporary file in the same directory. The sources are compiled side by side; a git
 * clone keeps the objects in build/objects.
 * Throws AddonError VERBENA_NO_COMPILER or VERBENA_COMPILE_FAILED.
 */
export function compileAddon(output: string, options: CompileOptions = {}): void {
  const { packageDir = findPackageDir(), env = process.env, flags = [], addon } = options;
  const [cc, ...ccArguments] = (env['CC'] || 'cc').split(/\s+/);
  const { spawnSync } = require('node:child_process') as typeof import('node:child_process');
  const headers = require('node-api-headers') as { include_dir: string };
  const partial = `${output}.${process.pid}.${process.hrtime.bigint()}.partial`;
  const keeps = existsSync(join(packageDir, '.git'));
  const directory = keeps ? join(dirname(output), 'objects') : `${partial}.objects`;
  const includes = ['-I', headers.include_dir, '-I', join(packageDir, 'native')];
  const compiler = [cc, ...ccArguments, ...COMPILE_FLAGS, ...flags, ...includes, '-c'];
  const run = (command: string, args: readonly string[], input?: string) => {
    const result = spawnSync(command, args, { env, encoding: 'utf8', input, stdio: ['pipe', 'pipe', 'pipe'] });
    if (result.error || result.status !== 0) throw compileError(cc, result, addon);
  };
  try {
    mkdirSync(directory, { recursive: true });
    const sources = sourceFiles(packageDir, addon);
    const objects = objectFiles(sources, directory, compiler);
    const missing = sources.flatMap((source, i) => (existsSync(objects[i]) ? [] : [{ source, object: objects[i] }]));
    // xargs starts one compiler per source, as many at once as there are CPUs. The largest sources take longest: they come first.
    missing.sort((a, b) => statSync(b.source).size - statSync(a.source).size);
    const made = (object: string) => `${object}.${process.pid}.partial`;
    const items = missing.flatMap(({ source, object }) => [source, '-o', made(object)]);
    if (missing.length > 0) {
      run(
        'xargs',
        ['-0', '-n', '3', '-P', String(availableParallelism()), ...compiler],
        items.map((item) => `${item}\0`).join(''),
      );
    }
    for (const { object } of missing) renameSync(made(object), object);
    run(cc, [...ccArguments, ...LINK_FLAGS, ...flags, '-o', partial, ...objects, ...(addon?.libraries ?? LIBRARIES)]);
    renameSync(partial, output);
    if (keeps) removeFormer(directory, objects);
  } finally {
    rmSync(partial, { force: true });
    if (!keeps) rmSync(directory, { recursive: true, force: true });
  }
}

/** Deletes objects that nobody has needed for a day. */
function removeFormer(directory: string, current: readonly string[]): void {
  const limit = Date.now() - 86_400_000;
  for (const name of readdirSync(directory)) {
    const file = join(directory, name);
    if (!current.includes(file) && (statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? limit) < limit)
      rmSync(file, { force: true });
  }
}

function compileError(cc: string, result: SpawnSyncReturns<string>, addon: OptionalAddon | undefined): AddonError {
  const code = (result.error as NodeJS.ErrnoException | undefined)?.code;
  // 126 and 127: xargs could not start the compiler.
  if (code === 'ENOENT' || code === 'EACCES' || result.status === 126 || result.status === 127) {
    return new AddonError(
      'VERBENA_NO_COMPILER',
      `verbena has no prebuilt addon for linux-${process.arch} and found no C compiler ('${cc}') to build it with: ` +
        'install one (apt-get install gcc libc6-dev) and start again.',
    );
  }
  const output =
    result.error?.message ?? (result.stderr.trim() || `${cc} ended with ${result.signal ?? `status ${result.status}`}`);
  if (addon !== undefined && /fatal error: .*\.h: No such file|cannot find -l/.test(output)) {
    return new AddonError(
      'VERBENA_NO_LIBRARY',
      `verbena's addon for ${addon.name} needs headers and library that are not installed: apt-get install ${addon.packages}`,
    );
  }
  const lines = output.split('\n').slice(0, 12).join('\n');
  const hint = /fatal error: .*\.h: No such file/.test(output) ? ' (apt-get install libc6-dev provides the C headers)' : '';
  return new AddonError('VERBENA_COMPILE_FAILED', `verbena could not compile its addon with '${cc}'${hint}:\n${lines}`);
}

/**
 * Path of an addon that matches the sources, compiled now if there is none. Any number of processes may call this at once:
 * one compiles, the others wait for it. Blocks the calling thread (a second or two when it compiles).
 * Throws AddonError; its `code` says which of the reasons it is.
 */
export function ensureAddon(options: BuildOptions = {}): string {
  const { packageDir = findPackageDir(), env = process.env, prebuilds = true, addon } = options;
  const hash = sourceHash(packageDir, addon);
  const prebuild = prebuildPath(packageDir);
  if (addon === undefined && prebuilds && readIfThere(`${prebuild}.hash`) === hash && existsSync(prebuild)) return prebuild;

  const name = `verbena-${addon === undefined ? '' : `${addon.name}-`}${process.arch}-${hash}.node`;
  const directories = outputDirectories(packageDir, env);
  const usable = ({ dir, private: mustBePrivate }: (typeof directories)[number]) => !mustBePrivate || isPrivate(dir);
  const built = directories.find((candidate) => existsSync(join(candidate.dir, name)) && usable(candidate));
  if (built) return join(built.dir, name);

  checkPlatform();
  const refusals: string[] = [];
  for (const candidate of directories) {
    const output = join(candidate.dir, name);
    try {
      mkdirSync(candidate.dir, { recursive: true, mode: candidate.private ? 0o700 : 0o777 });
      if (!usable(candidate)) throw new Error('others may write there');
      return withBuildLock(
        `${output}.lock`,
        () => (existsSync(output) ? output : undefined),
        () => {
          compileAddon(output, { packageDir, env, ...(addon && { addon }) });
          return output;
        },
      );
    } catch (error) {
      if (error instanceof AddonError) throw error;
      refusals.push(`${candidate.dir} (${(error as Error).message})`);
    }
  }
  throw new AddonError('VERBENA_NO_BUILD_DIRECTORY', `verbena found no directory to build its addon in: ${refusals.join('; ')}.`);
}
