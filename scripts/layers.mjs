/**
 * The layer check: imports in src/ point down, layers form no cycle, nor do the files of a layer with what they load, and src/ does not reach into test code.
 * Nor does a file load an index, which is all of a layer: every process that starts would pay for it.
 *
 * A layer is a folder directly under src/. The table lists them from the top; a file may import its own layer, the layers of
 * its own row, and everything below. Dynamic imports, type imports and `new URL('./x.js', import.meta.url)` count as well.
 * Unit tests follow the same rule, except that they may use conformance/ and test/.
 */
import { readdirSync, readFileSync, realpathSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROWS = [
  ['cli'],
  ['adapters', 'train', 'dataset', 'dfs', 'graph', 'plan', 'nn'],
  ['collectives'],
  ['launch'],
  ['messaging'],
  ['verbs'],
  ['schedule'],
  ['observe'],
  ['native'],
];
const OUTSIDE = ['test', 'bench', 'conformance', 'examples', 'scripts', 'dist'];
const OPEN_TO_TESTS = ['test', 'conformance'];

const rowOf = new Map(ROWS.flatMap((row, index) => row.map((layer) => [layer, index])));

/** Removes comments and the text of template strings, so that an import shown there is not one. */
function withoutComments(source) {
  const token = /'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`|\/\/[^\n]*|\/\*[\s\S]*?\*\//g;
  return source.replace(token, (match) => (/^[/`]/.test(match) ? ' ' : match));
}

/** Every relative or own-package specifier that a TypeScript source refers to. */
export function specifiersOf(source) {
  const forms = [
    /^\s*(?:import|export)\b[^'"`;]*?\bfrom\s*['"]([^'"]+)['"]/gm,
    /^\s*import\s*['"]([^'"]+)['"]/gm,
    /\bimport\s*\(\s*['"]([^'"]+)['"]/g,
    /\bnew\s+URL\(\s*['"]([^'"]+\.[cm]?[jt]s)['"]\s*,\s*import\.meta\.url/g,
  ];
  const text = withoutComments(source);
  return forms.flatMap((form) => [...text.matchAll(form)].map((match) => match[1]));
}

/** The specifiers that a source loads with itself: not types, and not what it imports later. */
function loadedBy(source) {
  const form = /^\s*(?:import|export)\s+(?!type\b)[^'"`;]*?\bfrom\s*['"]([^'"]+)['"]/gm;
  return [...withoutComments(source).matchAll(form)].map((match) => match[1]);
}

function cycleIn(edges) {
  const state = new Map();
  const visit = (layer, path) => {
    if (state.get(layer) === 'done') return undefined;
    if (path.includes(layer)) return [...path.slice(path.indexOf(layer)), layer];
    for (const next of edges.get(layer) ?? []) {
      const found = visit(next, [...path, layer]);
      if (found) return found;
    }
    state.set(layer, 'done');
    return undefined;
  };
  for (const layer of edges.keys()) {
    const found = visit(layer, []);
    if (found) return found;
  }
  return undefined;
}

/** Checks the tree under `root` and returns one sentence for each offence. */
export function checkLayers(root) {
  const offences = [];
  const edges = new Map();
  const fileEdges = new Map();
  const src = join(root, 'src');
  const files = readdirSync(src, { recursive: true }).filter((name) => name.endsWith('.ts'));
  for (const name of files) {
    const file = join(src, name);
    const layer = name.split('/')[0];
    const isTest = name.endsWith('.test.ts');
    if (!rowOf.has(layer)) {
      offences.push(`src/${name}: '${layer}' is not in the layer table of scripts/layers.mjs`);
      continue;
    }
    const source = readFileSync(file, 'utf8');
    if (!isTest && loadedBy(source).some((specifier) => specifier.endsWith('/index.js'))) {
      offences.push(`src/${name}: loads an index: import the files that are needed, types by 'import type'`);
    }
    const loaded = loadedBy(source).map((specifier) => join(dirname(name), specifier).replace(/\.js$/, '.ts'));
    fileEdges.set(
      name,
      loaded.filter((other) => other.startsWith(`${layer}/`)),
    );
    for (const specifier of specifiersOf(source)) {
      if (specifier.startsWith('verbena/')) offences.push(`src/${name}: imports its own package by name ('${specifier}')`);
      if (!specifier.startsWith('.')) continue;
      const [top, target] = relative(root, resolve(dirname(file), specifier)).split('/');
      if (top !== 'src') {
        if (OUTSIDE.includes(top) && !(isTest && OPEN_TO_TESTS.includes(top))) {
          offences.push(`src/${name}: imports '${specifier}', which is in ${top}/`);
        }
      } else if (rowOf.get(target) < rowOf.get(layer)) {
        offences.push(`src/${name}: imports '${specifier}': ${layer} is below ${target}`);
      } else if (target !== layer && !isTest) {
        edges.set(layer, (edges.get(layer) ?? new Set()).add(target));
      }
    }
  }
  const cycle = cycleIn(edges);
  if (cycle) offences.push(`layers form a cycle: ${cycle.join(' > ')}`);
  const circle = cycleIn(fileEdges);
  if (circle) offences.push(`files load each other in a circle: ${circle.join(' > ')}`);
  return offences;
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const offences = checkLayers(dirname(dirname(fileURLToPath(import.meta.url))));
  for (const offence of offences) console.error(offence);
  process.exitCode = offences.length > 0 ? 1 : 0;
}
