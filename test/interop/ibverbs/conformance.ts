/** Runs in the guest: the verbs conformance suite on the device named by the argument, with the skips that the kernel's Soft-RoCE dictates. */

import { verbsConformance } from '../../../conformance/verbs.js';
import { openDevice } from '../../../src/verbs/index.js';
import { RXE_SKIPS } from './rxe-skips.js';

const device = process.env['VERBENA_TEST_DEVICE'] ?? 'ibverbs:rxe0';

// For the table in docs/fabrics.md.
const opened = await openDevice(device);
console.log(`CAPABILITIES ${JSON.stringify(opened.capabilities)}`);
opened.close();

verbsConformance({
  name: device,
  open: (options) => openDevice(device, options),
  scale: 0.1,
  skip: RXE_SKIPS,
});
