/** The other process of a suite that plays in two: opens contexts when it is asked to. */

import { openContext } from '../../../src/messaging/index.js';
import { Membrane } from './membrane.js';

const [device, inPath, outPath] = process.argv.slice(2);

new Membrane(inPath, outPath, { open: () => openContext({ device }) });
// The line is looked after by timers that keep nobody alive.
setInterval(() => {}, 1000);
process.on('disconnect', () => process.exit(0));
