/**
 * Programs of the system that the checks need. As root on Debian or Ubuntu a missing one is installed; anywhere else one line
 * says what is missing and how to get it.
 */
import { spawnSync } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Whether `command` is an executable on PATH. */
export function hasCommand(command) {
  return (process.env.PATH ?? '').split(delimiter).some((dir) => {
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

/**
 * Makes the given commands available: `{ valgrind: 'valgrind', cc: 'gcc libc6-dev' }` maps a command to its Debian packages.
 * Returns the commands that are still missing, after naming them on stderr.
 */
export function ensureCommands(packages) {
  const missing = Object.keys(packages).filter((command) => !hasCommand(command));
  if (missing.length === 0) return [];
  const names = missing.flatMap((command) => packages[command].split(' '));
  if (process.getuid() === 0 && hasCommand('apt-get')) {
    process.stderr.write(`installing ${names.join(', ')} (apt-get) ...\n`);
    if (!aptGet('install', '-y', '-q', '--no-install-recommends', ...names)) {
      aptGet('update', '-q');
      aptGet('install', '-y', '-q', '--no-install-recommends', ...names);
    }
  }
  const left = missing.filter((command) => !hasCommand(command));
  if (left.length > 0) {
    process.stderr.write(
      `${left.join(', ')} missing: tests that need it are skipped or fail; apt-get install ${names.join(' ')}\n`,
    );
  }
  return left;
}
