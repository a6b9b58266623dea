import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { verbena, verbenaJson } from './verbena.js';

const PROGRAM = fileURLToPath(new URL('../fixtures/blocked-device.js', import.meta.url));

interface Device {
  pid: number;
  name: string;
  queuePairs: { type: string; state: string; counters: { operations: number; bytes: number } }[];
  counters: { operations: number; bytes: number; bytesCopied: number; errors: number };
  rates: { operations: number };
}

describe('verbena top', () => {
  it('shows the counters of a process whose thread is blocked', async (context) => {
    const child = fork(PROGRAM, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
    context.after(() => child.kill('SIGKILL'));
    await once(child, 'message');
    const args = ['top', '--once', '--interval', '0.1'];
    const { devices } = await verbenaJson<{ devices: Device[] }>(args);
    const device = devices.find(({ pid }) => pid === child.pid);
    assert.ok(device, `process ${child.pid} is not among ${devices.map(({ pid }) => pid).join(', ')}`);
    assert.equal(device.name, 'blocked device');
    assert.equal(device.counters.operations, 1000);
    assert.equal(device.counters.bytes, 64_000);
    assert.equal(device.counters.errors, 0);
    assert.equal(device.rates.operations, 0);
    assert.deepEqual(
      device.queuePairs.map(({ type, state }) => `${type} ${state}`),
      ['RC RTS', 'RC RTS'],
    );
    assert.match((await verbena([...args, '--qps'])).stdout, new RegExp(`${child.pid}\\s+blocked device`));
  });
});
