/** The commands by name. Each is loaded when it is called, so that starting one does not pay for the others. */

import type { AnyCommand, CommandGroup } from './command.js';

/** In the order of the help. */
const LOADERS: Readonly<Record<string, () => Promise<AnyCommand>>> = {
  train: async () => (await import('./commands/train/train.js')).train,
  demo: async () => (await import('./commands/demo/demo.js')).demo,
  run: async () => (await import('./commands/launch/run.js')).run,
  exec: async () => (await import('./commands/launch/exec.js')).exec,
  'host-agent': async () => (await import('./commands/launch/host-agent.js')).hostAgent,
  doctor: async () => (await import('./commands/doctor/doctor.js')).doctor,
  top: async () => (await import('./commands/top/top.js')).top,
  bench: async () => (await import('./commands/bench/bench.js')).bench,
  tune: async () => (await import('./commands/messaging/tune.js')).tune,
  explain: async () => (await import('./commands/collectives/explain.js')).explain,
  draw: async () => (await import('./commands/collectives/draw.js')).draw,
  verify: async () => (await import('./commands/collectives/verify.js')).verifyCommand,
  sim: async () => (await import('./commands/sim/sim.js')).sim,
  plan: async () => (await import('./commands/plan/plan.js')).planCommand,
  sort: async () => (await import('./commands/dataset/sort.js')).sort,
};

/** A command, or undefined for a name nobody has. */
export async function loadCommand(name: string): Promise<AnyCommand | undefined> {
  return Object.hasOwn(LOADERS, name) ? LOADERS[name]() : undefined;
}

/** The program itself, with all commands loaded: what `verbena --help` shows. */
export async function loadRoot(): Promise<CommandGroup> {
  return {
    name: 'verbena',
    summary: 'RDMA for TypeScript',
    description:
      "Processes that read and write each other's memory: on shared memory here, on InfiniBand and RoCE in a cluster.\n" +
      '`verbena COMMAND --help` explains a command with examples; `verbena --version` prints the version.',
    commands: await Promise.all(Object.values(LOADERS).map((load) => load())),
    examples: [
      { line: 'verbena doctor', note: 'What this machine offers, what is missing, and what to do about it.' },
      { line: 'verbena demo', note: "Two processes reach into each other's memory while the other one is blocked." },
      { line: 'verbena bench verbs --op write --size 8 --peer ucx', note: 'How fast that is, beside UCX in the same run.' },
    ],
  };
}
