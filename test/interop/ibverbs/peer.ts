/**
 * Runs in the guest, on rdma_rxe: the tools of libibverbs, perftest and librdmacm against an ibverbs device of this library, and the device against
 * the roce provider on the host. One process for all, because Node takes seconds to start there. Prints PASS or FAIL and a name, a line each.
 */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Device } from '../../../src/verbs/index.js';
import { openDevice } from '../../../src/verbs/index.js';
import type { IbverbsDevice } from '../../../src/verbs/providers/ibverbs/device.js';
import { dial, type Game, playAsClient, playAsServer } from '../rxe/pingpong.js';
import { runRping, serveRping } from '../rxe/rping.js';
import { exchangeEverything } from './exchange.js';
import { servePerftest } from './perftest.js';
import { Steps } from './steps.js';

const [own, host] = process.argv.slice(2);

/** Starts a tool; its output is shown when it fails. */
function tool(command: string, ...args: string[]): { ended: Promise<void> } {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (data: Buffer) => {
      output += data.toString();
    });
  }
  const ended = once(child, 'close').then(([code]) => {
    assert.equal(code, 0, `${command} ended with ${String(code)}: ${output.slice(-600)}`);
  });
  ended.catch(() => {});
  return { ended };
}

const GAMES: readonly [string, string, Game][] = [
  ['rc', 'ibv_rc_pingpong', { type: 'RC', size: 3000, rounds: 50, port: 18610 }],
  ['uc', 'ibv_uc_pingpong', { type: 'UC', size: 1000, rounds: 30, port: 18620 }],
  ['ud', 'ibv_ud_pingpong', { type: 'UD', size: 1000, rounds: 30, port: 18630 }],
];

async function main(): Promise<void> {
  const device: Device = await openDevice('ibverbs:rxe0');
  const gid = String((device as IbverbsDevice).choice.gid.index);
  const steps = new Steps();
  const play = steps.play.bind(steps);
  for (const [name, command, game] of GAMES) {
    const options = ['-d', 'rxe0', '-g', gid, '-n', String(game.rounds), '-s', String(game.size)];
    await play(`${name}-pingpong-they-listen`, async () => {
      const { ended } = tool(command, ...options, '-p', String(game.port));
      await Promise.all([playAsClient(device, own, game), ended]);
    });
    await play(`${name}-pingpong-they-connect`, async () => {
      const port = game.port + 1;
      const ours = playAsServer(device, own, { ...game, port });
      await Promise.all([ours, tool(command, ...options, '-p', String(port), own).ended]);
    });
  }
  for (const [i, name] of ['ib_write_bw', 'ib_read_bw', 'ib_atomic_bw'].entries()) {
    await play(name, async () => {
      const port = 18650 + i;
      const ours = servePerftest(device, own, port);
      const size = name === 'ib_atomic_bw' ? [] : ['-s', '4096'];
      const { ended } = tool(name, '-d', 'rxe0', '-x', gid, '-F', '-n', '50', '-p', String(port), ...size, own);
      await ended;
      const { memory } = await ours;
      if (name === 'ib_atomic_bw')
        assert.ok(
          memory.some((byte) => byte !== 0),
          'the counter was changed',
        );
    });
  }
  await play('rping-they-listen', async () => {
    const { ended } = tool('rping', '-s', '-a', own, '-p', '7181', '-C', '10', '-S', '3000', '-V');
    await Promise.all([runRping(device, own, 7181, 3000, 10), ended]);
  });
  await play('rping-they-connect', async () => {
    const ours = serveRping(device, 7182, 3000);
    const { ended } = tool('rping', '-c', '-a', own, '-p', '7182', '-C', '10', '-S', '3000', '-V');
    assert.equal(await ours, 10);
    await ended;
  });
  await play('roce', async () => {
    const socket = await dial(host, 18670);
    console.log(`EXCHANGED ${(await exchangeEverything(device, socket, 2)).join(', ')}`);
    socket.destroy();
  });
  device.close();
  process.exit(steps.failures === 0 ? 0 : 1);
}

await main();
