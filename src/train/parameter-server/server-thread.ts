/** The thread that a server runs on: it goes on serving while the main thread of its process computes. */
import { parentPort, workerData } from 'node:worker_threads';
import { Board, type BoardPlace } from '../../launch/board.js';
import { openContext } from '../../messaging/context.js';
import { type GroupPlan, ParameterServer, type ServerCounters } from './server.js';

export interface ServerThreadInput {
  readonly index: number;
  readonly plan: GroupPlan;
  /** Who runs it, as others are told. */
  readonly name: string;
  /** Of the rank's world, if it is in one. */
  readonly board: BoardPlace | undefined;
}

/** What the thread is asked. */
export type ServerRequest =
  | { readonly ask: 'connect'; readonly addresses: readonly Uint8Array[] }
  | { readonly ask: 'counters' }
  | { readonly ask: 'close'; readonly patienceMs: number };

/** What it says: its address first, then one answer for each request. */
export type ServerAnswer = {
  readonly address?: Uint8Array;
  readonly counters?: ServerCounters;
  readonly done?: true;
  /** A request failed, or (fatal) the server did. */
  readonly error?: string;
  readonly fatal?: boolean;
};

if (parentPort !== null && workerData !== null) {
  const port = parentPort;
  const { index, plan, name, board } = workerData as ServerThreadInput;
  const say = (answer: ServerAnswer) => port.postMessage(answer);
  const context = await openContext({ device: plan.device, name });
  const server = await ParameterServer.open(
    index,
    plan,
    (error) => say({ error: error.message, fatal: true }),
    context,
    board && Board.at(board),
  );
  port.on('message', async (request: ServerRequest) => {
    try {
      if (request.ask === 'connect') await server.connect(request.addresses);
      else if (request.ask === 'close') {
        await server.empty(request.patienceMs);
        await server.close();
      }
      say({ done: true, counters: server.counters() });
      if (request.ask === 'close') port.close();
    } catch (error) {
      say({ error: (error as Error).message });
    }
  });
  say({ address: server.address });
}
