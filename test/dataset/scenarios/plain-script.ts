/** A plain script that becomes a cluster. */

import { cluster } from '../../../src/dataset/index.js';

const data = await cluster({ workers: 2 }, import.meta.url);
const n = await data
  .range(1_000_000)
  .filter((i) => i % 7 === 0)
  .count();
if (data.isDriver) console.log(`${n} ${process.argv[2]} on ${data.size} ranks`);
await data.close();
