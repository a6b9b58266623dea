/** `verbena plan`: questions to ask before buying a switch or choosing a parallel plan. */

import type { CommandGroup } from '../../command.js';
import { a800Command } from './a800.js';
import { amdahlCommand } from './amdahl.js';
import { calibrateCommand } from './calibrate.js';
import { collectiveCommand } from './collective.js';
import { compareCommand } from './compare.js';
import { compressionCommand } from './compression.js';
import { energyCommand } from './energy.js';
import { latencyCommand } from './latency.js';
import { packetsCommand } from './packets.js';
import { psCommand } from './ps.js';
import { rooflineCommand } from './roofline.js';
import { thresholdCommand } from './threshold.js';
import { topologyCommand } from './topology.js';
import { trainCommand } from './train.js';

export const planCommand: CommandGroup = {
  name: 'plan',
  summary: 'topologies, algorithms and training plans: what a network will do and cost',
  description: 'Every command takes --json, and --html FILE for a self-contained page with drawings.',
  commands: [
    topologyCommand,
    compareCommand,
    collectiveCommand,
    calibrateCommand,
    trainCommand,
    a800Command,
    thresholdCommand,
    psCommand,
    compressionCommand,
    latencyCommand,
    packetsCommand,
    rooflineCommand,
    amdahlCommand,
    energyCommand,
  ],
  examples: [
    { line: 'verbena plan compare --endpoints 1024 --radix 64', note: 'Which network, for how much.' },
    {
      line: 'verbena plan collective allreduce --topology fat-tree:radix=16 --html report.html',
      note: 'Which algorithm, and where it runs.',
    },
    {
      line: 'verbena plan train --model gpt3-175b --cluster dgx-a100:1024',
      note: 'Which parallel plan, and why not the others.',
    },
  ],
};
