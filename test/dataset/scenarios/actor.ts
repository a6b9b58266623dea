/** The program of the ranks in these tests: its first argument names the scenario. What it finds it says in JSON lines, on the driver. */

import { openDatasets, type Session, type SessionOptions } from '../../../src/dataset/index.js';
import { apiScenario } from './api.js';
import { columnsScenario } from './columns.js';
import { damageScenario, damaging } from './damage.js';
import { diskScenario } from './disk.js';
import { driverDeathScenario } from './driver-death.js';
import { failuresScenario } from './failures.js';
import { killScenario } from './kill.js';
import { memoryScenario } from './memory.js';
import { skewScenario } from './skew.js';

const SCENARIOS: Readonly<Record<string, (data: Session, args: readonly string[]) => Promise<void>>> = {
  api: apiScenario,
  columns: columnsScenario,
  damage: damageScenario,
  disk: diskScenario,
  'driver-death': driverDeathScenario,
  failures: failuresScenario,
  kill: killScenario,
  memory: memoryScenario,
  skew: skewScenario,
};

const [name, options, ...args] = process.argv.slice(2);
const { shuffle, ...rest } = JSON.parse(options) as Omit<SessionOptions, 'shuffle'> & {
  shuffle?: 'rdma' | 'sort-tcp' | 'damaging';
};
const data = await openDatasets({
  ...rest,
  ...(shuffle === undefined ? {} : { shuffle: shuffle === 'damaging' ? damaging : shuffle }),
});
try {
  await SCENARIOS[name](data, args);
} finally {
  await data.close();
}
