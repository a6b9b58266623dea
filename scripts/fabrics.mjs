/**
 * The table of docs/fabrics.md: what each provider can do, as its devices say it, and how it does in the conformance suites.
 *
 *     node scripts/fabrics.mjs                      writes the table from what is recorded in docs/fabrics.json
 *     node scripts/fabrics.mjs record shm sim       opens the devices and runs their suites first, and records that; without names, all that can run here
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { run } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { root, setup } from './setup.mjs';

const PAGE = join(root, 'docs', 'fabrics.md');
const RECORD = join(root, 'docs', 'fabrics.json');
const [BEGIN, END] = ['<!-- fabrics -->', '<!-- /fabrics -->'];

/** Columns: what no device can say of itself, and which suites speak of it. */
const FABRICS = {
  shm: {
    other: 'no',
    oneSided: 'yes',
    needs: 'nothing',
    suites: /: (verbs on )?shm/,
    files: ['test/conformance-shm.test.js', 'test/messaging/conformance-shm.test.js'],
    where: '`npm test`',
  },
  sim: {
    other: 'simulated',
    oneSided: 'yes',
    needs: 'nothing',
    suites: /: (verbs on )?sim/,
    files: ['src/verbs/providers/sim/conformance.test.js', 'test/messaging/conformance-network.test.js'],
    where: '`npm test`',
  },
  roce: {
    other: 'yes',
    oneSided: 'by a thread of the target',
    needs: 'UDP between the hosts',
    suites: /: (verbs on )?roce/,
    files: [
      'test/roce/conformance.test.js',
      'test/roce/namespaces.test.js',
      'test/messaging/conformance-network.test.js',
      'test/interop/messaging-hosts.test.js',
    ],
    where: '`npm test`: loopback, namespaces with loss; `npm run test:interop`: between two namespaces, against the kernel',
  },
  ibverbs: {
    title: '`ibverbs` on rdma_rxe',
    other: 'yes',
    oneSided: 'yes',
    needs: 'an RDMA device, libibverbs-dev, librdmacm-dev',
    suites: /: (verbs on )?ibverbs/,
    files: ['test/interop/ibverbs-conformance.test.js'],
    where: '`npm run test:interop`: rdma_rxe and siw of Linux 6.1 in a guest. Not run on hardware: neither InfiniBand, nor DC',
  },
  ucx: {
    title: 'engine `ucx`',
    other: 'yes',
    oneSided: 'where its transport does; else the target must make progress',
    needs: 'libucx-dev',
    suites: /: ucx/,
    files: ['test/interop/messaging-ucx.test.js', 'test/interop/messaging-hosts.test.js'],
    where: '`npm run test:interop`: shared memory, TCP, TCP between two namespaces. Not run on hardware',
  },
};

/** What is compared with the live device in npm test: the rest depends on the machine. */
export const stable = ({ qpTypes, atomics, ...rest }) => ({
  qpTypes,
  atomics,
  ...Object.fromEntries(Object.entries(rest).filter(([, value]) => typeof value === 'boolean')),
});

const yesNo = (name) => (capabilities) => (capabilities[name] ? 'yes' : 'no');
const ATOMICS = { none: 'no', hca: 'among requests', global: 'against the CPU too' };

/** Rows that a device's capabilities fill. */
const ROWS = [
  ['queue pairs', ({ qpTypes }) => qpTypes.join(', ')],
  ['atomics', ({ atomics }) => ATOMICS[atomics]],
  ['shared receive queues', yesNo('srq')],
  ['DC', yesNo('dc')],
  ['multicast', yesNo('multicast')],
  ['ordinary ArrayBuffers', yesNo('privateMemory')],
  ['files as memory', yesNo('mappedFiles')],
  ['on-demand registration', yesNo('onDemand')],
  ['strided regions (UMR)', yesNo('umr')],
  ['memory windows', yesNo('memoryWindows')],
  ['peers as typed arrays (`directAccess`)', yesNo('directAccess')],
  ["notices a peer's death by itself", yesNo('peerDeath')],
  ['inline, most bytes', ({ maxInline }) => String(maxInline)],
];

/** The record of a fabric's suites of a kind ('verbs', 'messaging'), added up. */
function sum(name, kind, results) {
  const own = Object.entries(results).filter(([title]) => title.startsWith(kind) && FABRICS[name].suites.test(title));
  const passed = own.reduce((total, [, { passed }]) => total + passed, 0);
  const skipped = own.flatMap(([, { skipped }]) => Object.values(skipped)).reduce((total, count) => total + count, 0);
  return own.length === 0 ? '' : `${passed} passed${skipped > 0 ? `, ${skipped} skipped` : ''}`;
}

/** The table and the list of skips from a record. */
export function table({ capabilities, results }) {
  const names = Object.keys(FABRICS);
  const line = (title, cell) => `| ${title} | ${names.map(cell).join(' | ')} |`;
  const skips = Object.keys(FABRICS).flatMap((name) => {
    const reasons = new Map();
    for (const [title, { skipped }] of Object.entries(results)) {
      if (!FABRICS[name].suites.test(title)) continue;
      for (const [reason, count] of Object.entries(skipped)) reasons.set(reason, (reasons.get(reason) ?? 0) + count);
    }
    return [...reasons].sort(([a], [b]) => a.localeCompare(b)).map(([reason, count]) => `| \`${name}\` | ${count} | ${reason} |`);
  });
  return [
    line('', (name) => FABRICS[name].title ?? `\`${name}\``),
    `|---|${names.map(() => '---|').join('')}`,
    line('other hosts', (name) => FABRICS[name].other),
    line('needs', (name) => FABRICS[name].needs),
    line('one-sided while the target computes', (name) => FABRICS[name].oneSided),
    ...ROWS.map(([title, cell]) => line(title, (name) => (capabilities[name] ? cell(capabilities[name]) : ''))),
    line('verbs suite', (name) => sum(name, 'verbs', results)),
    line('messaging suite', (name) => sum(name, 'messaging', results)),
    line('run by', (name) => FABRICS[name].where),
    '',
    'A skip has a reason. Suites that run in several settings (with loss, in virtual time) count each:',
    '',
    '| provider | skipped | because |',
    '|---|---|---|',
    ...skips,
  ].join('\n');
}

/** The page with the table of a record in it. */
export function pageWith(page, record) {
  const [from, to] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (from < 0 || to < from) throw new Error(`docs/fabrics.md has lost its marks ${BEGIN} and ${END}`);
  return `${page.slice(0, from + BEGIN.length)}\n${table(record)}\n${page.slice(to)}`;
}

export const readRecord = () => JSON.parse(readFileSync(RECORD, 'utf8'));

/** Runs test files and returns results by suite, and capabilities that a guest told. Throws where a test fails. */
async function runSuites(files) {
  const results = {};
  let told;
  let suite = '';
  let guestSkips = {};
  const note = (title) => (results[title] ??= { passed: 0, skipped: {} });
  const events = run({ files: files.map((file) => join(root, 'dist', file)), concurrency: 1 });
  events.on('test:start', ({ nesting, name }) => {
    if (nesting === 0) suite = name;
  });
  events.on('test:pass', ({ nesting, skip, details }) => {
    if (nesting === 0 || details.type === 'suite' || !suite.includes('conformance: ')) return;
    if (skip === undefined) note(suite).passed++;
    else note(suite).skipped[skip] = (note(suite).skipped[skip] ?? 0) + 1;
  });
  const failed = [];
  events.on('test:fail', ({ name, details }) => details.type !== 'suite' && failed.push(name));
  // A guest prints its own summary (test/interop/ibverbs/guest.sh).
  events.on('test:diagnostic', ({ message }) => {
    const [, capabilities] = /CAPABILITIES (.*)$/.exec(message) ?? [];
    if (capabilities) told = JSON.parse(capabilities);
    const [, reason] = /^ *\| ok .* # SKIP (.*)$/.exec(message) ?? [];
    if (reason) guestSkips[reason] = (guestSkips[reason] ?? 0) + 1;
    const [, kind, passed] = /^SUITE (\w+) .*\bpass (\d+)/.exec(message) ?? [];
    if (!kind) return;
    results[`${kind} conformance: ibverbs`] = { passed: Number(passed), skipped: guestSkips };
    guestSkips = {};
  });
  for await (const _ of events);
  if (failed.length > 0) throw new Error(`failed: ${failed.join('; ')}`);
  return { results, told };
}

async function record(names) {
  await setup();
  const { openDevice, getProvider, providerNames } = await import(pathToFileURL(join(root, 'dist/src/verbs/index.js')).href);
  const known = readRecord();
  for (const name of names.length > 0 ? names : Object.keys(FABRICS)) {
    console.log(`${name} ...`);
    const { results, told } = await runSuites(FABRICS[name].files);
    if (told) known.capabilities[name] = told;
    else if (providerNames().includes(name) && (await (await getProvider(name)).unavailable()) === undefined) {
      const device = await openDevice(name);
      known.capabilities[name] = device.capabilities;
      device.close();
    }
    const own = Object.entries(results).filter(([title]) => FABRICS[name].suites.test(title));
    // Where nothing ran (no guest, no headers) the last record stays.
    if (own.length === 0) console.log(`${name}: nothing ran, the last record stays`);
    else {
      for (const title of Object.keys(known.results)) if (FABRICS[name].suites.test(title)) delete known.results[title];
      // A seed in a title is chance.
      for (const [title, result] of own) known.results[title.replace(/, VERBENA_SEED=\d+/, '')] = result;
    }
    writeFileSync(RECORD, `${JSON.stringify(known, undefined, 2)}\n`);
    spawnSync(process.execPath, [join('node_modules', '@biomejs', 'biome', 'bin', 'biome'), 'format', '--write', RECORD], {
      cwd: root,
    });
  }
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const [command, ...names] = process.argv.slice(2);
  if (command === 'record') await record(names);
  writeFileSync(PAGE, pageWith(readFileSync(PAGE, 'utf8'), readRecord()));
}
