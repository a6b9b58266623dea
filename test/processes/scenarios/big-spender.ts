/** Allocates from a small memory file system until it is full, and says how that ended. A SIGBUS would end it without a word. */

import { VerbsError } from '../../../src/verbs/errors.js';
import { openDevice } from '../../../src/verbs/open-device.js';
import { say, scenario } from '../scenario.js';

scenario<{ directory: string; piece: number }>(async ({ directory, piece }) => {
  const pieces: Uint8Array[] = [];
  let error: unknown;
  let device: Awaited<ReturnType<typeof openDevice>> | undefined;
  try {
    device = await openDevice('shm', { segmentDirectory: directory });
    while (pieces.length < 1000) pieces.push(new Uint8Array(device.alloc(piece)));
  } catch (caught) {
    error = caught;
  }
  for (const [i, bytes] of pieces.entries()) bytes.fill(i);
  const intact = pieces.every((bytes, i) => bytes.every((byte) => byte === (i & 0xff)));
  let again = 'no piece to free';
  if (device && pieces.length > 0) {
    device.free(pieces[0].buffer as ArrayBuffer);
    try {
      new Uint8Array(device.alloc(piece)).fill(1);
      again = 'works';
    } catch (caught) {
      again = String(caught);
    }
  }
  const code = VerbsError.is(error) ? error.code : String(error);
  say('spent', { pieces: pieces.length, code, message: String(error), intact, again });
  device?.close();
});
