/** Copies a file to another process with `pipeline`, as one would over a socket. Run it: it starts the receiver by itself. */

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { createReadStream, createWriteStream, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { openContext } from 'verbena/messaging';

const [, , name = `file-copy-${process.pid}`, target] = process.argv;

const context = await openContext({ device: 'shm' });
const worker = await context.createWorker();

if (target !== undefined) {
  const endpoint = worker.connect(name);
  await endpoint.ready();
  await pipeline(endpoint.stream.toDuplex().end(), createWriteStream(target));
} else {
  const folder = mkdtempSync(join(tmpdir(), 'verbena-copy-'));
  const source = join(folder, 'source');
  const copy = join(folder, 'copy');
  writeFileSync(source, Buffer.alloc(20_000_000, 'verbena '));
  const listener = await worker.listen(name);
  const receiver = fork(fileURLToPath(import.meta.url), [name, copy]);
  const endpoint = await listener.accept();
  const start = performance.now();
  await pipeline(createReadStream(source, { highWaterMark: 1 << 18 }), endpoint.stream.toDuplex().resume());
  await once(receiver, 'exit');
  const seconds = (performance.now() - start) / 1000;
  const same = readFileSync(source).equals(readFileSync(copy));
  rmSync(folder, { recursive: true });
  if (!same) throw new Error('the copy differs');
  console.log(`20 MB copied through a stream in ${seconds.toFixed(2)} s, unchanged`);
}
await worker.close({ force: true });
await context.close();
process.exit(0);
