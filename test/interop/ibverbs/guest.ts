/** Boots the guest of ../rxe with a script of shell functions (guest.sh) and hands over what it prints. */

import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { compileAddon, ensureAddon } from '../../../src/native/build.js';
import { addonPath } from '../../../src/native/load.js';
import { IBVERBS } from '../../../src/verbs/providers/ibverbs/addon.js';
import { OWN_NETWORK_BITS, ownAddress } from '../own-network.js';

const ROOT = fileURLToPath(new URL('../../../..', import.meta.url)).replace(/\/$/, '');
export const SCRIPTS: string = join(ROOT, 'test/interop');
const TAP = `vbi${process.pid % 100_000}`;

/** Address of this end of the cable. */
export const HOST: string = ownAddress(1);
const GUEST = ownAddress(2);
const NOBODY = ownAddress(3);

/** Runs a command; returns why it failed, or undefined. */
export function attempt(...command: string[]): string | undefined {
  const { status, stderr, error } = spawnSync(command[0], command.slice(1), { encoding: 'utf8', timeout: 280_000 });
  return status === 0 ? undefined : `${command.join(' ')}: ${error?.message ?? stderr.slice(-500)}`;
}

/** Makes the guest's files and the interface it is on; says why this machine cannot. */
export function prepareGuest(): string | undefined {
  if (process.getuid?.() !== 0) return 'a tap interface and packages need root';
  if (!existsSync('/dev/net/tun')) return 'this kernel has no tap interfaces';
  return (
    attempt(join(SCRIPTS, 'rxe/setup.sh')) ??
    attempt('ip', 'tuntap', 'add', 'dev', TAP, 'mode', 'tap') ??
    attempt('ip', 'address', 'add', `${HOST}/${OWN_NETWORK_BITS}`, 'dev', TAP) ??
    attempt('ip', 'link', 'set', TAP, 'up')
  );
}

export function dropGuest(): void {
  attempt('ip', 'link', 'delete', TAP);
}

/** Compiles the addon with sanitizers into `folder`: its path, and the library that has to come first with it. */
function sanitizedAddon(folder: string): Record<string, string> {
  const flags = ['-g', '-O1', '-fsanitize=address,undefined', '-fno-sanitize-recover=all', '-fno-omit-frame-pointer'];
  const path = join(folder, 'verbena-ibverbs-sanitized.node');
  compileAddon(path, { flags, addon: IBVERBS });
  const { stdout } = spawnSync('cc', ['-print-file-name=libasan.so'], { encoding: 'utf8' });
  return { SANITIZED: path, SANITIZER: stdout.trim() };
}

/** Runs `commands` in the guest after guest.sh and calls `hear` with every line. */
export async function inGuest(seconds: number, commands: string, hear: (line: string) => void): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'verbena-guest-'));
  try {
    const script = join(folder, 'run.sh');
    // The addons of the host, by path: a guest would take minutes to compile one.
    const addons = {
      VERBENA_ADDON: addonPath(),
      VERBENA_ADDON_IBVERBS: ensureAddon({ addon: IBVERBS }),
      ...sanitizedAddon(folder),
    };
    const exports = Object.entries(addons).map(([name, path]) => `export ${name}=${path}\n`);
    const settings = `ROOT=${ROOT}\nNODE=${process.execPath}\nOWN=${GUEST}\nHOST=${HOST}\nNOBODY=${NOBODY}\n${exports.join('')}`;
    writeFileSync(script, `${settings}${readFileSync(join(SCRIPTS, 'ibverbs/guest.sh'), 'utf8')}\n${commands}\n`);
    const child = spawn(join(SCRIPTS, 'rxe/boot.sh'), [script, TAP, `${GUEST}/${OWN_NETWORK_BITS}`], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, TIMEOUT: String(seconds) },
    });
    for await (const raw of createInterface({ input: child.stdout })) {
      hear(raw.replaceAll('\r', '').replace(/^.*?\b(?=(PASS|FAIL|SUITE) )/, ''));
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}
