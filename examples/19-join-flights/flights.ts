/** Three million flights joined with the airports they left from: where do they start late? */

import { join } from 'node:path';
import { openDatasets } from 'verbena/dataset';

const [folder = 'node_modules/vega-datasets/data'] = process.argv.slice(2);
const data = await openDatasets();

interface Flight {
  readonly origin: string;
  readonly delay: bigint;
}

type Delays = readonly [minutes: number, flights: number];
const add = ([a, n]: Delays, [b, m]: Delays): Delays => [a + b, n + m];

const airports = data.csv(join(folder, 'airports.csv')).map(({ iata, state }): [string, string] => [iata, state]);

const states = data
  .parquet<Flight>(join(folder, 'flights-3m.parquet'), { columns: ['origin', 'delay'] })
  .map(({ origin, delay }): [string, Delays] => [origin, [Number(delay), 1]])
  .reduceByKey(add) // 3 million flights, a few hundred airports
  .join(airports)
  .map(([, [delays, state]]): [string, Delays] => [state, delays])
  .reduceByKey(add)
  .filter(([, [, flights]]) => flights >= 10_000);

const total = data.accumulator('flights');
const late = await states
  .map(([state, [sum, flights]]) => {
    total.add(flights);
    return { state, minutes: sum / flights, flights };
  })
  .sortBy(({ minutes }) => minutes, { descending: true })
  .collect();

if (data.isDriver) {
  for (const { state, minutes, flights } of late.slice(0, 3))
    console.log(`${state} ${minutes.toFixed(1)} min late, ${flights} flights`);
  console.log(`${late.length} states`);
}
await data.close();
