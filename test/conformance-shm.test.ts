/** The shm provider passes the conformance suite of the verbs layer. */

import { verbsConformance } from '../conformance/verbs.js';
import { openDevice } from '../src/verbs/index.js';

/** Below 1 on machines that are slow: fewer repetitions, more patience. */
const scale = Number(process.env['VERBENA_TEST_SCALE'] ?? 1);

verbsConformance({ name: 'shm', open: (options) => openDevice('shm', options), scale });
