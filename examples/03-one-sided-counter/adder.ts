/** Adds 1 to a word in another process, many times, in the prepared form: a post makes no object. */

import { once } from 'node:events';
import { openDevice, WorkCompletions } from 'verbena/verbs';

const device = await openDevice('shm');
const pd = device.allocPd();
const cq = device.createCq();
const qp = pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq });
const before = pd.register(device.alloc(8), { localWrite: true }); // the value before the addition comes back here

const go = once(process, 'message');
const connection = await device.connect(process.argv[2], qp);
const remote = JSON.parse(new TextDecoder().decode(connection.privateData));
const add = qp.prepare({ opcode: 'ATOMIC_FETCH_AND_ADD', local: before, remote });
add.addLo = 1;
const wcs = new WorkCompletions(1);

await go;
for (let i = 0; i < Number(process.argv[3]); i++) {
  add.post(0, 8, i, 0);
  while (cq.poll(wcs) === 0);
  if (wcs.status[0] !== 0) throw new Error(cq.cause(wcs.causeId[0])?.words);
}
process.disconnect();
device.close();
