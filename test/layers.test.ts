import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';

const { checkLayers } = (await import(new URL('../../scripts/layers.mjs', import.meta.url).href)) as {
  checkLayers(root: string): string[];
};

describe('the layer check', () => {
  let root: string;

  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'verbena-layers-'));
  });
  afterEach(() => rmSync(root, { recursive: true }));

  function offencesOf(files: Record<string, string>): string[] {
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(dirname(join(root, name)), { recursive: true });
      writeFileSync(join(root, name), text);
    }
    return checkLayers(root);
  }

  it('accepts imports of the own layer and of layers below', () => {
    const files = {
      'src/verbs/qp.ts':
        "import { a } from './cq.js';\nimport type { Addon } from '../native/addon.js';\nexport * from '../observe/counters.js';",
      'src/train/step.ts': "import { layer } from '../nn/layer.js';\nimport { run } from '../verbs/qp.js';",
    };
    assert.deepEqual(offencesOf(files), []);
  });

  const upward: Record<string, string> = {
    'an import': "import { run } from '../cli/main.js';",
    'an import over several lines': "import {\n  run,\n} from '../cli/main.js';",
    'a type import': "import type { Options } from '../cli/main.js';",
    'a re-export': "export { run } from '../cli/main.js';",
    'an import for its effects': "import '../cli/main.js';",
    'a dynamic import': "const cli = await import('../cli/main.js');",
    'a worker file': "new Worker(new URL('../cli/main.js', import.meta.url));",
  };
  for (const [form, text] of Object.entries(upward)) {
    it(`refuses ${form} that points up`, () => {
      assert.deepEqual(offencesOf({ 'src/verbs/qp.ts': text }), [
        "src/verbs/qp.ts: imports '../cli/main.js': verbs is below cli",
      ]);
    });
  }

  it('refuses to load an index, whose types may be used', () => {
    const files = {
      'src/verbs/qp.ts': "import { a } from '../observe/index.js';",
      'src/verbs/cq.ts': "import type { A } from '../observe/index.js';",
    };
    assert.deepEqual(offencesOf(files), [
      "src/verbs/qp.ts: loads an index: import the files that are needed, types by 'import type'",
    ]);
  });

  it('overlooks imports in comments', () => {
    const text = "// import { run } from '../cli/main.js';\n/* import '../cli/main.js'; */\nexport const url = 'http://x';";
    assert.deepEqual(offencesOf({ 'src/verbs/qp.ts': text }), []);
  });

  it('refuses a cycle between layers of one row', () => {
    const files = {
      'src/plan/cost.ts': "import { a } from '../nn/layer.js';",
      'src/nn/layer.ts': "import { b } from '../train/step.js';",
      'src/train/step.ts': "import { c } from '../plan/cost.js';",
    };
    const offences = offencesOf(files);
    assert.equal(offences.length, 1);
    assert.match(offences[0], /cycle: (plan > nn > train > plan|nn > train > plan > nn|train > plan > nn > train)/);
  });

  it('refuses files of a layer that load each other in a circle; types may', () => {
    const files = {
      'src/nn/a.ts': "import { b } from './deep/b.js';",
      'src/nn/deep/b.ts': "import type { A } from '../a.js';\nconst later = import('../a.js');",
    };
    assert.deepEqual(offencesOf(files), []);
    const circle = { 'src/nn/deep/b.ts': "import { a } from '../a.js';" };
    assert.match(
      offencesOf(circle)[0],
      /circle: (nn\/a.ts > nn\/deep\/b.ts > nn\/a.ts|nn\/deep\/b.ts > nn\/a.ts > nn\/deep\/b.ts)/,
    );
  });

  it('lets only unit tests use the conformance suite, and nobody the benchmarks', () => {
    const conformance = "import { suite } from '../../conformance/verbs.js';";
    const bench = "import { measure } from '../../bench/measure.js';";
    assert.deepEqual(offencesOf({ 'src/verbs/shm.test.ts': conformance }), []);
    assert.equal(offencesOf({ 'src/verbs/shm.ts': conformance }).length, 1);
    assert.equal(offencesOf({ 'src/verbs/shm.test.ts': bench, 'src/verbs/shm.ts': bench }).length, 2);
  });

  it('refuses a folder that is not in the table, and the package by its own name', () => {
    assert.match(offencesOf({ 'src/misc/thing.ts': '' })[0], /'misc' is not in the layer table/);
    assert.match(offencesOf({ 'src/verbs/qp.ts': "import 'verbena/verbs';" })[1], /imports its own package by name/);
  });
});
