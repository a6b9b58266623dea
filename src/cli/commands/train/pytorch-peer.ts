/** PyTorch over gloo beside ours: its ranks as processes of bench/peers/train-pytorch.py. */

import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const PEERS = fileURLToPath(new URL('../../../../../bench/peers/', import.meta.url));
const OWN_PYTHON = join(PEERS, 'python', 'bin', 'python3');
/** Debian's python3-torch. */
const SYSTEM_PYTHON = existsSync('/usr/lib/python3/dist-packages/torch') ? '/usr/bin/python3' : undefined;
const PYTHON = existsSync(OWN_PYTHON) ? OWN_PYTHON : SYSTEM_PYTHON;
const SCRIPT = join(PEERS, 'train-pytorch.py');

/** The command that installs it, or undefined when it is there. */
export function missingPyTorch(): string | undefined {
  return PYTHON !== undefined && existsSync(SCRIPT)
    ? undefined
    : 'npm run setup:peers -- --with-pytorch, or apt-get install python3-torch (in a clone)';
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}

/** Runs the script on `ranks` processes; what rank 0 printed: the version and the values. */
export async function runPyTorch(
  ranks: number,
  args: readonly (string | number)[],
  signal: AbortSignal,
): Promise<{ version: string; values: number[] }> {
  const port = String(await freePort());
  const outputs = await Promise.all(
    Array.from({ length: ranks }, (_, rank) => {
      const env = {
        ...process.env,
        RANK: String(rank),
        WORLD_SIZE: String(ranks),
        MASTER_ADDR: '127.0.0.1',
        MASTER_PORT: port,
        GLOO_SOCKET_IFNAME: 'lo',
        OMP_NUM_THREADS: '1',
        MKL_NUM_THREADS: '1',
      };
      return outputOf([SCRIPT, ...args.map(String)], env, signal);
    }),
  );
  const [version, ...values] = outputs[0].trim().split('\n');
  return { version, values: values.map(Number) };
}

function outputOf(args: readonly string[], env: NodeJS.ProcessEnv, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(PYTHON as string, args, { env, signal, killSignal: 'SIGKILL', stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    let errors = '';
    child.stdout.on('data', (chunk) => {
      output += chunk;
    });
    child.stderr.on('data', (chunk) => {
      errors = (errors + chunk).slice(-2000);
    });
    child.on('error', reject);
    child.on('close', (code, ended) =>
      code === 0 ? resolve(output) : reject(new Error(`PyTorch ended with ${code ?? ended}: ${errors.trim()}`)),
    );
  });
}
