/**
 * Programs of the system that the checks need. As root on Debian or Ubuntu a missing one is installed; anywhere else one line
 * says what is missing and how to get it.
 */
import { spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Whether `command` is an executable on PATH. */
export function hasCommand(command) {
  return `${process.env.PATH ?? ''}:/usr/sbin`.split(delimiter).some((dir) => {
    try {
      accessSync(join(dir, command), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

function aptGet(...args) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  return spawnSync('apt-get', args, { env, stdio: ['ignore', 'ignore', 2] }).status === 0;
}

/** As root on Debian: installs packages, with fresh lists when the first try fails. */
function install(names) {
  process.stderr.write(`installing ${names.join(', ')} (apt-get) ...\n`);
  const args = ['install', '-y', '-q', '--no-install-recommends', ...names];
  if (aptGet(...args)) return;
  aptGet('update', '-q');
  aptGet(...args);
}

const canInstall = () => process.getuid() === 0 && hasCommand('apt-get');

/** Where the dynamic linker looks by default. */
const LIBRARY_FOLDERS = ['/usr/lib/x86_64-linux-gnu', '/usr/lib/aarch64-linux-gnu', '/usr/lib64', '/usr/lib', '/usr/local/lib'];

/** Makes a shared library available that things work without; returns whether it is there. `name`: its file name. */
export function ensureLibrary(name, packages) {
  const isThere = () => LIBRARY_FOLDERS.some((folder) => existsSync(join(folder, name)));
  if (!isThere() && canInstall()) install(packages.split(' '));
  return isThere();
}

/**
 * Makes the given commands available: `{ valgrind: 'valgrind', cc: 'gcc libc6-dev' }` maps a command to its Debian packages.
 * Returns the commands that are still missing, after naming them on stderr.
 */
export function ensureCommands(packages) {
  return ensure(packages, hasCommand);
}

/** The same for files, by their absolute paths. */
export function ensureFiles(packages) {
  return ensure(packages, existsSync);
}

function ensure(packages, isThere) {
  const missing = Object.keys(packages).filter((name) => !isThere(name));
  if (missing.length === 0) return [];
  const names = missing.flatMap((name) => packages[name].split(' '));
  if (canInstall()) install(names);
  const left = missing.filter((name) => !isThere(name));
  if (left.length > 0) {
    process.stderr.write(
      `${left.join(', ')} missing: tests that need it are skipped or fail; apt-get install ${names.join(' ')}\n`,
    );
  }
  return left;
}
