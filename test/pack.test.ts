/**
 * The package as a user gets it: packed, installed offline into an empty project, made read-only, and used by a user who may
 * write nothing there. Run as root, the programs run as `nobody`, since modes do not bind root.
 */
import assert from 'node:assert/strict';
import { execFileSync, type SpawnOptions, spawn } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  constants,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join, relative } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { linksOf } from './page-links.js';

const NOBODY = 65534;
const root = fileURLToPath(new URL('../..', import.meta.url));
const isRoot = process.getuid?.() === 0;

const LOAD =
  "import { loadAddon } from './node_modules/verbena/dist/src/native/load.js';\nconsole.log(Object.keys(loadAddon()).length > 0);\n";
/** The program of the README, more or less: one WRITE from memory to memory. */
const IMPORT = `import { openDevice } from 'verbena/verbs';
const device = await openDevice('shm');
const pd = device.allocPd();
const cq = device.createCq();
const [a, b] = [1, 2].map(() => pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq }));
await a.connect(b.address());
await b.connect(a.address());
const to = pd.register(device.alloc(5), { remoteWrite: true });
a.postSend({ opcode: 'RDMA_WRITE', inlineData: new TextEncoder().encode('hello'), remoteAddr: to.addr, rkey: to.rkey });
console.log((await cq.next()).status, new TextDecoder().decode(to.bytes));
device.close();
`;

describe('the packed package', () => {
  let dir: string;
  let project: string;
  let env: NodeJS.ProcessEnv;
  let node: string;

  /** Directories of the packages that the package needs at run time, from the lock file. */
  function runtimePackages(): string[] {
    const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
      packages: Record<string, { dev?: boolean }>;
    };
    return Object.entries(lock.packages)
      .filter(([path, { dev }]) => path !== '' && !dev && existsSync(join(root, path)))
      .map(([path]) => join(root, path));
  }

  /** Runs a program of the project as the unprivileged user and gives what it printed. */
  async function run(command: string, args: string[], extra: NodeJS.ProcessEnv = {}): Promise<string> {
    const user: SpawnOptions = isRoot ? { uid: NOBODY, gid: NOBODY } : {};
    const child = spawn(command, args, { ...user, cwd: project, env: { ...env, ...extra }, stdio: ['ignore', 'pipe', 'pipe'] });
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (data) => {
      stdout += data;
    });
    child.stderr.on('data', (data) => {
      stderr += data;
    });
    const status = await new Promise((resolve, reject) => child.on('error', reject).on('close', resolve));
    assert.equal(status, 0, stderr);
    return stdout;
  }

  /** A fresh home of the unprivileged user, so that nothing is built yet. */
  function newHome(name: string): string {
    const home = join(dir, name);
    mkdirSync(home, { mode: 0o700 });
    if (isRoot) chownSync(home, NOBODY, NOBODY);
    return home;
  }

  const filesUnder = (path: string) => (existsSync(path) ? (readdirSync(path, { recursive: true }) as string[]) : []);
  const setModes = (modes: string) => execFileSync('chmod', ['-R', modes, join(project, 'node_modules')]);

  before(() => {
    dir = mkdtempSync(join(tmpdir(), 'verbena-pack-'));
    chmodSync(dir, 0o755);
    project = join(dir, 'project');
    mkdirSync(project);
    const npm = (cwd: string, args: string[]) =>
      execFileSync('npm', [...args, '--cache', join(dir, 'npm-cache'), '--loglevel=error', '--no-update-notifier'], {
        cwd,
        encoding: 'utf8',
      });
    const [{ filename }] = JSON.parse(npm(root, ['pack', '--json', '--ignore-scripts', '--pack-destination', dir])) as [
      { filename: string },
    ];
    writeFileSync(join(project, 'package.json'), '{ "private": true, "type": "module" }');
    writeFileSync(join(project, 'load.js'), LOAD);
    writeFileSync(join(project, 'import.ts'), IMPORT);
    writeFileSync(join(project, 'import.js'), IMPORT);
    npm(project, ['install', '--offline', '--install-links', join(dir, filename), ...runtimePackages()]);
    setModes('a-w');
    // This node may live in root's home, where nobody may not look.
    node = join(dir, 'bin', 'node');
    mkdirSync(dirname(node));
    copyFileSync(process.execPath, node, constants.COPYFILE_FICLONE);
    env = { PATH: `${dirname(node)}${delimiter}${process.env['PATH']}`, HOME: newHome('home'), TMPDIR: newHome('tmp') };
  });
  after(() => {
    setModes('u+w');
    rmSync(dir, { recursive: true });
  });

  it('holds what it needs at run time and no tests', () => {
    const names = filesUnder(join(project, 'node_modules', 'verbena'));
    for (const needed of [
      'bin/verbena.js',
      'native',
      'dist/native.sha256',
      'dist/src/verbs/index.js',
      'dist/src/verbs/index.d.ts',
      'LICENSE',
    ]) {
      assert.ok(names.includes(needed), needed);
    }
    const unwanted = names.filter((name) => /\.test\.|^(src|test|bench|scripts|build|native\/tests)\//.test(name));
    assert.deepEqual(unwanted, []);
  });

  it('has everything that its pages link to', () => {
    const root = join(project, 'node_modules', 'verbena');
    const names = filesUnder(root);
    const pages = names.filter((name) => name.endsWith('.md'));
    assert.ok(pages.includes('README.md') && pages.includes('docs/verbs.md'));
    for (const page of pages) {
      for (const { path } of linksOf(page, readFileSync(join(root, page), 'utf8'))) {
        assert.ok(names.includes(path), `${page} links to ${path}`);
      }
    }
  });

  it('compiles its addon once when 32 processes start at the same time, into the cache of a user who may not write the package', async () => {
    const home = env['HOME'] as string;
    const cc = join(dir, 'counting-cc');
    // Set-up has compiled the same sources as users do; here it matters that it is done once.
    writeFileSync(cc, '#!/bin/sh\necho run >> "$HOME/runs"\nexec cc "$@" -O0\n', { mode: 0o755 });
    const start = () => run(node, ['load.js'], { CC: cc });
    const outputs = await Promise.all(Array.from({ length: 32 }, start));
    assert.deepEqual(outputs, Array(32).fill('true\n'));
    const sources = readdirSync(join(root, 'native')).filter((name) => name.endsWith('.c')).length;
    assert.equal(
      readFileSync(join(home, 'runs'), 'utf8').length / 'run\n'.length,
      sources + 1,
      'each source once, and the linker',
    );

    const built = filesUnder(home).filter((name) => name.endsWith('.node'));
    assert.equal(built.length, 1);
    assert.equal(statSync(join(home, built[0])).uid, isRoot ? NOBODY : process.getuid?.());
    const left = readdirSync(dirname(join(home, built[0])));
    assert.deepEqual(left, [relative(dirname(built[0]), built[0])], 'no lock and no temporary file remain');
    assert.ok(!existsSync(join(project, 'node_modules', 'verbena', 'build')));
  });

  it('gives verbena/verbs to an import', async () => {
    assert.equal(await run(node, ['import.js']), 'SUCCESS hello\n');
  });

  it('gives the types of verbena/verbs to the TypeScript compiler', async () => {
    const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
    const types = ['--typeRoots', join(root, 'node_modules', '@types'), '--types', 'node'];
    const options = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2022', '--lib', 'es2023,esnext.disposable'];
    // The compiler belongs to the clone, which the unprivileged user may not be able to read.
    assert.equal(
      execFileSync(process.execPath, [tsc, ...options, ...types, 'import.ts'], { cwd: project, encoding: 'utf8' }),
      '',
    );
  });

  it('brings lessons that run once they are copied, since Node takes no TypeScript out of node_modules', async () => {
    cpSync(join(project, 'node_modules', 'verbena', 'examples'), join(project, 'examples'), { recursive: true });
    const verbena = join(project, 'node_modules', '.bin', 'verbena');
    assert.match(await run(verbena, ['exec', 'examples/01-hello-read/owner.ts']), /"hello from the memory of process \d+"/);
  });

  it('has a command that tells its version', async () => {
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
    assert.equal((await run(join(project, 'node_modules', '.bin', 'verbena'), ['--version'])).trim(), version);
  });

  it('says in one sentence what to install where there is no compiler', async () => {
    const extra = { HOME: newHome('bare-home'), CC: 'no-such-cc' };
    await assert.rejects(run(node, ['load.js'], extra), /no C compiler \('no-such-cc'\).*apt-get install gcc libc6-dev/);
  });
});
