/**
 * Makes a clone ready to run: dependencies, compiled TypeScript, compiled addon. Every command runs it first; what is up to date
 * is left alone, so the second time takes about a second. Speaks on stderr only, because commands print JSON on stdout.
 *
 * Imports nothing but Node itself: it must work when nothing is installed yet. `flock` serialises several set-ups of one
 * clone (four ranks started at once); where it is missing they run unserialised.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, realpathSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { ownConstants } from './own-constants.mjs';

export const root = dirname(dirname(fileURLToPath(import.meta.url)));
const self = fileURLToPath(import.meta.url);
const lockStamp = join(root, 'node_modules', '.verbena-lock.sha256');

/** Runs a command in the repository with its output on stderr; throws when it fails. */
function step(what, command, args) {
  const result = spawnSync(command, args, { cwd: root, stdio: ['ignore', 2, 2] });
  if (result.error) throw new Error(`${what} failed: ${result.error.message}`);
  if (result.status !== 0) throw new Error(`${what} failed: '${command} ${args.join(' ')}' ended with ${result.status}`);
}

/**
 * Installs what the lock file says. Not with `npm ci`: that refuses a lock file without the binaries of other platforms, which a
 * registry mirror need not carry; `install --no-save` keeps to the lock file and never writes it.
 */
function installDependencies() {
  const wanted = createHash('sha256')
    .update(readFileSync(join(root, 'package-lock.json')))
    .digest('hex');
  if (existsSync(lockStamp) && readFileSync(lockStamp, 'utf8') === wanted) return;
  process.stderr.write('setup: installing dependencies ...\n');
  step('npm install', 'npm', ['install', '--no-save', '--no-audit', '--no-fund', '--loglevel=error']);
  writeFileSync(lockStamp, wanted);
}

/** Deletes outputs in dist/ whose source is gone, so that neither tests nor the package see them. */
function pruneStaleOutputs() {
  const dist = join(root, 'dist');
  if (!existsSync(dist)) return;
  for (const entry of readdirSync(dist, { recursive: true })) {
    const stem = /^(.*)\.(?:js|d\.ts|js\.map)$/.exec(entry)?.[1];
    if (stem !== undefined && !existsSync(join(root, `${stem}.ts`))) rmSync(join(dist, entry));
  }
}

/** When a file changed last; 0: never. */
function changed(path) {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

function compileTypeScript() {
  if (!existsSync(join(root, 'dist'))) process.stderr.write('setup: compiling TypeScript ...\n');
  pruneStaleOutputs();
  step('The TypeScript build', process.execPath, [join('node_modules', 'typescript', 'bin', 'tsc'), '-p', '.']);
  const stamp = join(root, 'dist', '.own-constants');
  if (changed(stamp) >= changed(join(root, 'dist', '.tsbuildinfo'))) return;
  ownConstants(join(root, 'dist', 'src'));
  writeFileSync(stamp, '');
}

/** Compiles the addon, records the hash of its sources for the package, and deletes the addons of former sources. */
async function compileAddon() {
  const { ensureAddon, hashSources } = await import(pathToFileURL(join(root, 'dist', 'src', 'native', 'build.js')).href);
  const build = join(root, 'build');
  if (!existsSync(build)) process.stderr.write('setup: compiling the addon ...\n');
  const addon = ensureAddon();
  writeFileSync(join(root, 'dist', 'native.sha256'), `${hashSources()}\n`);
  for (const name of existsSync(build) ? readdirSync(build) : []) {
    const isFormer = name.startsWith(`verbena-${process.arch}-`) && name.endsWith('.node') && join(build, name) !== addon;
    if (isFormer) rmSync(join(build, name), { force: true });
  }
}

/** Brings the clone up to date. Throws an Error that names the failed step. */
export async function setup() {
  const result = spawnSync('flock', [root, process.execPath, self, '--locked'], { stdio: ['ignore', 2, 2] });
  if (result.error) await run();
  else if (result.status !== 0) throw new Error('set-up failed, see above');
}

async function run() {
  installDependencies();
  compileTypeScript();
  await compileAddon();
}

if (process.argv[1] && realpathSync(process.argv[1]) === self) {
  await (process.argv[2] === '--locked' ? run() : setup()).catch((error) => {
    process.stderr.write(`setup: ${error.message}\n`);
    process.exitCode = 1;
  });
}
