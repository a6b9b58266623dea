/** Two processes throw a message back and forth. Run it: it starts its partner by itself. */

import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { openContext } from 'verbena/messaging';

const ROUNDS = 10_000;
const BALL = 1;
const name = process.argv[2] ?? `ping-pong-${process.pid}`;
const isPartner = process.argv[2] !== undefined;

const context = await openContext({ device: 'shm' });
const worker = await context.createWorker();
const ball = context.alloc(8);

if (isPartner) {
  const endpoint = worker.connect(name);
  await endpoint.ready();
  for (let i = 0; i < ROUNDS; i++) {
    await worker.recv(BALL, ball);
    await endpoint.send(BALL, ball);
  }
} else {
  const listener = await worker.listen(name);
  const partner = fork(fileURLToPath(import.meta.url), [name]);
  const endpoint = await listener.accept();
  const start = performance.now();
  for (let i = 0; i < ROUNDS; i++) {
    ball[0] = i;
    await endpoint.send(BALL, ball);
    await worker.recv(BALL, ball);
    if (ball[0] !== (i & 0xff)) throw new Error('the ball came back changed');
  }
  const us = ((performance.now() - start) * 1000) / ROUNDS / 2;
  console.log(`${ROUNDS} rounds, ${us.toFixed(2)} us one way, with promises`);
  console.log(`8 bytes go by ${endpoint.explain('tag', 8).protocol}, 1 MiB by ${endpoint.explain('tag', 1 << 20).protocol}`);
  partner.unref();
}
await worker.close({ force: !isPartner });
await context.close();
process.exit(0);
