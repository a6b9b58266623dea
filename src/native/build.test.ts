import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { type BuildOptions, ensureAddon, hashSources, prebuildPath } from './build.js';

const SOURCE = `#include <node_api.h>
NAPI_MODULE_INIT() {
  napi_value answer;
  napi_create_int32(env, ANSWER, &answer);
  napi_set_named_property(env, exports, "answer", answer);
  return exports;
}
`;

/** Runs in a child process: prints the answer of the addon built for the package directory given as argument. */
const PROGRAM = `
  const { ensureAddon } = await import(${JSON.stringify(new URL('./build.js', import.meta.url).href)});
  const holder = { exports: {} };
  process.dlopen(holder, ensureAddon({ packageDir: process.argv[1] }));
  console.log(holder.exports.answer);
`;

describe('the addon build', () => {
  let dir: string;
  let packageDir: string;
  let options: BuildOptions;

  /** A package with one C file, its own home, and a compiler that counts the sources it compiles. */
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'verbena-build-'));
    chmodSync(dir, 0o755);
    packageDir = join(dir, 'package');
    mkdirSync(join(packageDir, 'native'), { recursive: true });
    writeFileSync(join(packageDir, 'package.json'), '{ "name": "verbena" }');
    writeFileSync(join(packageDir, 'native', 'answer.h'), '#define ANSWER 42\n');
    writeFileSync(join(packageDir, 'native', 'answer.c'), `#include "answer.h"\n${SOURCE}`);
    const cc = join(dir, 'counting-cc');
    writeFileSync(cc, `#!/bin/sh\ncase "$*" in *-shared*) ;; *) echo run >> ${dir}/runs ;; esac\nexec cc "$@"\n`, {
      mode: 0o755,
    });
    options = { packageDir, env: { PATH: process.env['PATH'], HOME: join(dir, 'home'), TMPDIR: dir, CC: cc } };
  });
  afterEach(() => rmSync(dir, { recursive: true }));

  const compiles = () => readFileSync(join(dir, 'runs'), 'utf8').split('\n').length - 1;

  function answerOf(path: string): number {
    const holder = { exports: {} };
    process.dlopen(holder, path);
    return (holder.exports as { answer: number }).answer;
  }

  it('compiles into the package once, and finds it again', () => {
    const path = ensureAddon(options);
    assert.equal(dirname(path), join(packageDir, 'build'));
    assert.equal(answerOf(path), 42);
    assert.equal(ensureAddon(options), path);
    assert.equal(compiles(), 1);
    assert.equal(readdirSync(dirname(path)).length, 1, 'no lock and no temporary file remain');
  });

  it('compiles in a git clone only the source that changed', () => {
    mkdirSync(join(packageDir, '.git'));
    writeFileSync(join(packageDir, 'native', 'other.c'), 'int other(void) { return 1; }\n');
    ensureAddon(options);
    assert.equal(compiles(), 2);
    writeFileSync(join(packageDir, 'native', 'other.c'), 'int other(void) { return 2; }\n');
    assert.equal(answerOf(ensureAddon(options)), 42);
    assert.equal(compiles(), 3);
  });

  it('compiles again when a header changes', () => {
    const before = ensureAddon(options);
    writeFileSync(join(packageDir, 'native', 'answer.h'), '#define ANSWER 43\n');
    const after = ensureAddon(options);
    assert.notEqual(after, before);
    assert.equal(answerOf(after), 43);
  });

  it('takes a prebuilt binary when its recorded hash is that of the sources, and only then', () => {
    const prebuild = prebuildPath(packageDir);
    mkdirSync(dirname(prebuild), { recursive: true });
    writeFileSync(prebuild, 'a binary');
    writeFileSync(`${prebuild}.hash`, `${hashSources(packageDir)}\n`);
    assert.equal(ensureAddon(options), prebuild);
    assert.notEqual(ensureAddon({ ...options, prebuilds: false }), prebuild);
    writeFileSync(join(packageDir, 'native', 'answer.h'), '#define ANSWER 44\n');
    assert.notEqual(ensureAddon(options), prebuild);
  });

  it('trusts the recorded hash in an installed package, and reads the sources in a clone', () => {
    mkdirSync(join(packageDir, 'dist'));
    writeFileSync(join(packageDir, 'dist', 'native.sha256'), 'recorded\n');
    assert.match(ensureAddon(options), /-recorded\.node$/);
    mkdirSync(join(packageDir, '.git'));
    assert.ok(ensureAddon(options).endsWith(`-${hashSources(packageDir)}.node`));
  });

  it('builds in the cache directory of the user when the package cannot be written', () => {
    writeFileSync(join(packageDir, 'build'), 'a file where the directory would be');
    const path = ensureAddon(options);
    assert.equal(dirname(path), join(dir, 'home', '.cache', 'verbena'));
    assert.equal(statSync(dirname(path)).mode & 0o777, 0o700);
    const xdg = { ...options.env, XDG_CACHE_HOME: join(dir, 'xdg') };
    assert.equal(dirname(ensureAddon({ ...options, env: xdg })), join(dir, 'xdg', 'verbena'));
  });

  it('builds in a directory of its own under the temporary directory when there is no home', () => {
    writeFileSync(join(packageDir, 'build'), '');
    writeFileSync(join(dir, 'home'), '');
    const path = ensureAddon(options);
    assert.equal(dirname(path), join(dir, `verbena-${process.getuid?.()}`));
    assert.equal(ensureAddon(options), path);
  });

  it('never loads from nor builds in a directory that others may write', () => {
    writeFileSync(join(packageDir, 'build'), '');
    const cached = ensureAddon(options);
    chmodSync(dirname(cached), 0o777);
    const path = ensureAddon(options);
    assert.equal(dirname(path), join(dir, `verbena-${process.getuid?.()}`));
    chmodSync(dirname(path), 0o777);
    assert.throws(() => ensureAddon(options), { code: 'VERBENA_NO_BUILD_DIRECTORY' });
  });

  it('says in one sentence what to install when there is no compiler', () => {
    const env = { ...options.env, CC: 'no-such-cc' };
    assert.throws(
      () => ensureAddon({ ...options, env }),
      (error: Error & { code: string }) => {
        assert.equal(error.code, 'VERBENA_NO_COMPILER');
        assert.match(error.message, /'no-such-cc'.*apt-get install gcc libc6-dev/);
        assert.doesNotMatch(error.message, /\n/);
        return true;
      },
    );
  });

  it('builds an optional addon from a folder of its own, and leaves the usual one alone', () => {
    const addon = { name: 'extra', libraries: [], packages: 'libextra-dev' };
    mkdirSync(join(packageDir, 'native', 'extra'));
    writeFileSync(join(packageDir, 'native', 'extra', 'answer.h'), '#define ANSWER 7\n');
    writeFileSync(join(packageDir, 'native', 'extra', 'answer.c'), `#include "answer.h"\n${SOURCE}`);
    const usual = ensureAddon(options);
    const path = ensureAddon({ ...options, addon });
    assert.match(path, /verbena-extra-/);
    assert.equal(answerOf(path), 7);
    assert.equal(answerOf(usual), 42);
    assert.equal(ensureAddon({ ...options, addon }), path);
    assert.equal(compiles(), 2);
  });

  it('names the package to install when the library of an optional addon is missing', () => {
    const addon = { name: 'extra', libraries: ['-lno-such-library'], packages: 'libextra-dev' };
    mkdirSync(join(packageDir, 'native', 'extra'));
    writeFileSync(join(packageDir, 'native', 'extra', 'extra.c'), '#include <no/such/library.h>\n');
    const missing = { code: 'VERBENA_NO_LIBRARY', message: /addon for extra.*apt-get install libextra-dev/ };
    assert.throws(() => ensureAddon({ ...options, addon }), missing);
    writeFileSync(join(packageDir, 'native', 'extra', 'extra.c'), 'int extra;\n');
    assert.throws(() => ensureAddon({ ...options, addon }), missing);
  });

  it("shows the compiler's first lines when the sources do not compile", () => {
    writeFileSync(join(packageDir, 'native', 'answer.c'), 'int main( {\n');
    assert.throws(() => ensureAddon(options), { code: 'VERBENA_COMPILE_FAILED', message: /answer\.c:1:.*error/ });
    assert.deepEqual(readdirSync(join(packageDir, 'build')), []);
  });

  it('goes on after a process that was killed while compiling', () => {
    const { pid } = spawnSync('true');
    const name = `verbena-${process.arch}-${hashSources(packageDir)}.node`;
    mkdirSync(join(packageDir, 'build'));
    writeFileSync(join(packageDir, 'build', `${name}.lock`), `${pid} 1`);
    utimesSync(join(packageDir, 'build', `${name}.lock`), 0, 0);
    assert.equal(answerOf(ensureAddon(options)), 42);
  });

  it('compiles once when sixteen processes start at the same time', async () => {
    const children = Array.from({ length: 16 }, () => {
      const args = ['--input-type=module', '-e', PROGRAM, packageDir];
      return spawn(process.execPath, args, { env: options.env, stdio: ['ignore', 'pipe', 'inherit'] });
    });
    const outputs = await Promise.all(
      children.map(async (child) => {
        let output = '';
        child.stdout.on('data', (data) => {
          output += data;
        });
        await once(child, 'close');
        return output;
      }),
    );
    assert.deepEqual(outputs, Array(16).fill('42\n'));
    assert.equal(compiles(), 1);
  });
});
