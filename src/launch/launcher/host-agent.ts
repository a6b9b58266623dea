/**
 * The other end of remote-host.ts: starts ranks on this host for a launcher elsewhere, and tells it what they write and how they end. It lives as long as
 * its stdin: when that ends, the ranks end.
 */

import { hostname } from 'node:os';
import { packageVersion } from '../version.js';
import { LineSplitter } from './line-splitter.js';
import { type RankHandle, startRank } from './rank-process.js';
import type { FromAgent, ToAgent } from './remote-host.js';

/** Runs until stdin ends and no rank is left. */
export async function serveRanks(input: NodeJS.ReadableStream, output: NodeJS.WritableStream): Promise<void> {
  const handles = new Map<number, RankHandle>();
  const say = (message: FromAgent) => output.write(`${JSON.stringify(message)}\n`);
  say({ type: 'version', version: packageVersion() });

  const start = async (spec: Extract<ToAgent, { type: 'start' }>['spec']) => {
    const { rank } = spec;
    try {
      const env = { ...process.env, ...spec.env };
      const handle = await startRank({ ...spec, env }, hostname(), (_, stream, line) =>
        say({ type: 'line', rank, stream, line }),
      );
      handles.set(rank, handle);
      say({ type: 'started', rank, pid: handle.pid });
      void handle.exited.then((exit) => {
        handles.delete(rank);
        say({ type: 'exit', rank, exit });
      });
    } catch (error) {
      say({ type: 'failed', rank, message: (error as Error).message });
    }
  };
  const lines = new LineSplitter((line) => {
    const message = JSON.parse(line) as ToAgent;
    if (message.type === 'start') void start(message.spec);
    else if (message.type === 'signal') handles.get(message.rank)?.signal(message.signal);
    else if (message.bytes === null) handles.get(message.rank)?.stdin?.end();
    else handles.get(message.rank)?.stdin?.write(Buffer.from(message.bytes, 'base64'));
  });
  await new Promise<void>((resolve) => {
    input.on('data', (chunk: Buffer) => lines.push(chunk));
    input.on('end', resolve);
    input.on('error', () => resolve());
  });
  const left = [...handles.values()];
  for (const handle of left) handle.signal('SIGKILL');
  await Promise.all(left.map(({ exited }) => exited));
}
