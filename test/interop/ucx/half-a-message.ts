/** A process that dies in the middle of a message: the memory that UCX copies from is gone when it looks there. */

import { ftruncateSync, openSync, unlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openContext } from '../../../src/messaging/index.js';

const context = await openContext({ device: 'ucx:TLS=sm,self' });
const worker = await context.createWorker();
const endpoint = worker.connect(Buffer.from(process.argv[2], 'base64'));
await endpoint.ready();
const path = join(tmpdir(), `verbena-half-a-message-${process.pid}`);
const file = openSync(path, 'wx+');
ftruncateSync(file, 4096);
const memory = context.mapFile(path);
unlinkSync(path);
ftruncateSync(file, 0);
await endpoint.send(1, memory.subarray(0, 2000));
