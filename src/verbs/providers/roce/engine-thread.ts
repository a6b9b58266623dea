/**
 * The thread that runs the engine of one device: nothing but its beginning and its end. It never returns to its event loop while the
 * device is open; the program talks to it through ports that are read synchronously and words of shared memory.
 */

import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { loadAddon } from '../../../native/load.js';
import { Engine } from './engine.js';
import type { EngineData } from './messages.js';
import { Switchboard } from './switchboard.js';

/** The shortest time slice that Linux gives. */
const SLICE_US = 100;

const { data, commands, notices } = workerData as { data: EngineData; commands: MessagePort; notices: MessagePort };

try {
  const addon = loadAddon();
  // On a machine with few cores the program polls on the core that this thread is woken on: it should give way at once.
  addon.shortenSlice(SLICE_US);
  const engine = new Engine(data, addon, commands, notices);
  parentPort?.postMessage('ready');
  engine.run();
} catch (error) {
  notices.postMessage({ kind: 'event', type: 'DEVICE_FATAL', words: `the engine stopped: ${(error as Error).stack}` });
  const board = new Switchboard(data.board);
  board.announceNotice();
  board.die();
} finally {
  commands.close();
  notices.close();
}
