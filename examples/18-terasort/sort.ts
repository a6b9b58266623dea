/** The sort benchmark in ten lines: records of 100 bytes with keys of 10, sorted over all ranks. */

import { openDatasets } from 'verbena/dataset';

const [from, to] = process.argv.slice(2);
const data = await openDatasets();
const sorted = data.binaryRecords(from, { width: 100, key: 10 }).sortByKey();
const started = performance.now();
await sorted.saveAsBinary(to);
const seconds = (performance.now() - started) / 1000;

if (data.isDriver) {
  const [map, reduce] = data.lastReport?.stages ?? [];
  console.log(`sorted ${reduce.rowsOut} records, ${map.tasks} map tasks, ${reduce.tasks} reduce tasks`);
  console.error(`${seconds.toFixed(2)} s`);
}
await data.close();
