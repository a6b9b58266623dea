/** The shm provider passes the conformance suite of the verbs layer. */

import { verbsConformance } from '../conformance/verbs.js';
import { openDevice } from '../src/verbs/index.js';

verbsConformance({ name: 'shm', open: (options) => openDevice('shm', options) });
