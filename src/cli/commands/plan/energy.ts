/** `verbena plan energy`: polling against interrupts. */

import { pollingEnergy } from '../../../plan/cost/polling-energy.js';
import { numbersOf } from '../../arguments.js';
import { defineCommand } from '../../command.js';
import { grouped } from './figures.js';
import { htmlOption } from './report-file.js';
import { say } from './said.js';

export const energyCommand = defineCommand({
  name: 'energy',
  summary: 'the energy of polling against interrupts',
  options: {
    events: { type: 'list', summary: 'completions a second', default: ['100', '1000', '10000', '100000', '1000000'] },
    'socket-watts': { type: 'number', summary: 'watts of the socket', default: 105, min: 0 },
    cores: { type: 'integer', summary: 'cores of the socket', default: 24, min: 1 },
    'interrupt-us': { type: 'number', summary: 'microseconds of CPU an interrupt costs', default: 5, min: 0.001 },
    html: htmlOption,
  },
  examples: [{ line: 'verbena plan energy', note: 'A polling core draws 4.4 W, the NIC 3.8 W.' }],
  async run({ options, style }) {
    const answers = numbersOf('events', options.events).map((events) => ({
      events,
      ...pollingEnergy({
        eventsPerSecond: events,
        socketWatts: options['socket-watts'],
        cores: options.cores,
        interruptSeconds: options['interrupt-us'] / 1e6,
      }),
    }));
    return say(
      {
        title: 'The energy of waiting',
        subtitle: `${options['socket-watts']} W over ${options.cores} cores`,
        head: ['completions a second', 'polling', 'interrupts', 'NIC', 'less energy'],
        rows: answers.map((a) => [
          grouped(a.events),
          `${a.pollingWatts.toFixed(1)} W`,
          `${a.interruptWatts.toFixed(2)} W`,
          `${a.nicWatts} W`,
          a.advice,
        ]),
        document: { answers },
        note: `A polling core takes ${answers[0].pollingKilowattHoursPerYear.toFixed(0)} kWh a year; interrupts cost as much from ${grouped(answers[0].breakEvenEventsPerSecond)} a second on.`,
      },
      options.html,
      style,
    );
  },
});
