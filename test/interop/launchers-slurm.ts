/** A Slurm of one node, for a test: its own configuration and state in one directory, no systemd, ended and removed afterwards. */

import { execFileSync, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from './own-network.js';

function isAlive(pid: number): boolean {
  try {
    readlinkSync(`/proc/${pid}/exe`); // fails for a zombie, which `kill -0` takes for alive
    return true;
  } catch {
    return false;
  }
}

async function waitFor(what: string, look: () => boolean, limitMs = 60_000): Promise<void> {
  const deadline = performance.now() + limitMs;
  while (!look()) {
    if (performance.now() > deadline) throw new Error(`not within ${limitMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

export class OneNodeSlurm {
  readonly directory = mkdtempSync(join(tmpdir(), 'verbena-slurm-'));

  /** Environment for srun. */
  get env(): Record<string, string> {
    return { SLURM_CONF: join(this.directory, 'slurm.conf') };
  }

  /** @param cpus how many the node says it has: more tasks than cores may run. */
  async start(cpus: number): Promise<void> {
    const { directory } = this;
    const node = hostname().split('.')[0];
    const [controller, daemon] = [await freePort(), await freePort()];
    chmodSync(directory, 0o755);
    for (const name of ['state', 'spool', 'log']) mkdirSync(join(directory, name));
    writeFileSync(join(directory, 'munge.key'), randomBytes(128), { mode: 0o600 });
    const settings = {
      ClusterName: 'verbena',
      FirstJobId: 10 * process.pid, // ranks of a job meet by its number, and another such Slurm may run on this machine
      SlurmctldHost: `${node}(127.0.0.1)`,
      SlurmctldPort: controller,
      SlurmdPort: daemon,
      SlurmUser: 'root',
      AuthType: 'auth/munge',
      AuthInfo: `socket=${directory}/munge.sock`,
      StateSaveLocation: `${directory}/state`,
      SlurmdSpoolDir: `${directory}/spool`,
      SlurmctldPidFile: `${directory}/slurmctld.pid`,
      SlurmdPidFile: `${directory}/slurmd.pid`,
      SlurmctldLogFile: `${directory}/log/slurmctld.log`,
      SlurmdLogFile: `${directory}/log/slurmd.log`,
      MailProg: '/bin/true',
      ProctrackType: 'proctrack/linuxproc',
      TaskPlugin: 'task/none',
      JobAcctGatherType: 'jobacct_gather/none',
      AccountingStorageType: 'accounting_storage/none',
      SelectType: 'select/linear',
      SlurmdParameters: 'config_overrides',
      InactiveLimit: 5,
      KillWait: 2,
      NodeName: `${node} NodeAddr=127.0.0.1 CPUs=${cpus}`,
      PartitionName: `main Nodes=${node} Default=YES OverSubscribe=FORCE:8`,
    };
    writeFileSync(
      join(directory, 'slurm.conf'),
      `${Object.entries(settings)
        .map(([name, value]) => `${name}=${value}`)
        .join('\n')}\n`,
    );
    const options = { env: { ...process.env, ...this.env }, stdio: ['ignore', 'ignore', 'pipe'] as ['ignore', 'ignore', 'pipe'] };
    const munge = [
      'key-file=munge.key',
      'socket=munge.sock',
      'pid-file=munged.pid',
      'log-file=log/munged.log',
      'seed-file=munged.seed',
    ];
    const start = (name: string, args: readonly string[]) => execFileSync(name, args, options);
    start('munged', ['--force', ...munge.map((text) => `--${text.replace('=', `=${directory}/`)}`)]);
    start('slurmctld', ['-c']);
    start('slurmd', []);
    await waitFor('the node is idle', () => this.#ask('sinfo', ['-h', '-o', '%T']) === 'idle').catch((error) => {
      throw new Error(`${error.message}\n${this.#logs()}`);
    });
  }

  /** What a command of Slurm says. */
  #ask(command: string, args: readonly string[]): string {
    const env = { ...process.env, ...this.env };
    return spawnSync(command, args, { env, timeout: 5000, encoding: 'utf8' }).stdout?.trim() ?? '';
  }

  #logs(): string {
    const folder = join(this.directory, 'log');
    return readdirSync(folder)
      .map((name) => `${name}:\n${readFileSync(join(folder, name), 'utf8').split('\n').slice(-20).join('\n')}`)
      .join('\n');
  }

  /** Cancels what runs, ends the daemons by their pid files, removes the directory. */
  async stop(): Promise<void> {
    this.#ask('scancel', ['--user', 'root']);
    await waitFor('jobs have ended', () => this.#ask('squeue', ['-h']) === '');
    for (const name of ['slurmd', 'slurmctld', 'munged']) {
      let pid = 0;
      try {
        pid = Number(readFileSync(join(this.directory, `${name}.pid`), 'utf8'));
        if (readFileSync(`/proc/${pid}/comm`, 'utf8').trim() !== name) continue;
      } catch {
        continue; // never started, or ended by itself
      }
      process.kill(pid, 'SIGTERM');
      await waitFor(`${name} has ended`, () => !isAlive(pid));
    }
    rmSync(this.directory, { recursive: true, force: true });
  }
}
