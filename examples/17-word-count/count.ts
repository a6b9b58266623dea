/** Word count, twice: as a Spark user writes it, and with the words counted natively. Run it alone: it starts its own workers. */

import { cluster } from 'verbena/dataset';

const data = await cluster({ workers: 4 }, import.meta.url);
const [path = 'LICENSE'] = process.argv.slice(2);
/** By count; of equal ones the one that comes first in the alphabet is larger. */
const byCount = ([a, n]: readonly [string, number], [b, m]: readonly [string, number]) => n - m || (a < b ? 1 : -1);

const counts = data
  .textFile(path)
  .flatMap((line) => line.split(/\s+/))
  .filter((word) => word !== '')
  .map((word): [string, number] => [word, 1])
  .reduceByKey((a, b) => a + b);
const top = await counts.top(3, byCount);
const native = await data.textFile(path).countWords().top(3, byCount);

if (data.isDriver) {
  for (const [word, n] of top) console.log(`${String(n).padStart(6)} ${word}`);
  console.log(JSON.stringify(native) === JSON.stringify(top) ? 'counted natively: the same' : 'counted natively: something else');
}
await data.close();
