import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { registerTypeScript, typescriptExecArgv } from './typescript.js';

/** A user's project: TypeScript only, with Verbena in node_modules. */
const PROJECT = {
  'package.json': '{ "type": "module" }',
  'shape.ts':
    'export interface Shape { readonly sides: number }\nexport const sidesOf = (shape: Shape): number => shape.sides;\n',
  'main.ts': [
    "import { isMainThread, Worker } from 'node:worker_threads';",
    "import verbena from 'verbena/package.json' with { type: 'json' };",
    "import { type Shape, sidesOf } from './shape.ts';",
    'const square: Shape = { sides: 4 } satisfies Shape;',
    'console.log(isMainThread, sidesOf(square), verbena.name);',
    'if (isMainThread) new Worker(new URL(import.meta.url));',
  ].join('\n'),
  'throws.ts': "interface Nothing {}\n\n  throw new Error('on line three' as string);\n",
  'enum.ts': 'export enum Colour { Red }\n',
  'old.cts': "const text: string = require('node:path').sep;\nmodule.exports = { text };\n",
};

describe("a user's TypeScript", () => {
  let dir: string;
  const packageDir = fileURLToPath(new URL('../../../..', import.meta.url));

  before(() => {
    dir = mkdtempSync(join(tmpdir(), 'verbena-typescript-'));
    for (const [name, text] of Object.entries(PROJECT)) writeFileSync(join(dir, name), text);
    mkdirSync(join(dir, 'node_modules'));
    symlinkSync(packageDir, join(dir, 'node_modules', 'verbena'));
  });
  after(() => rmSync(dir, { recursive: true }));

  const run = (file: string) =>
    spawnSync(process.execPath, [...typescriptExecArgv(), join(dir, file)], { encoding: 'utf8', timeout: 60_000 });

  it('runs in a child process and its worker threads, and imports .ts files and the package', () => {
    const { stdout, stderr, status } = run('main.ts');
    assert.equal(stdout, 'true 4 verbena\nfalse 4 verbena\n', stderr);
    assert.equal(status, 0);
  });

  it('can be imported into this thread, CommonJS included', async () => {
    await registerTypeScript(join(dir, 'main.ts'));
    await registerTypeScript();
    const shape = (await import(pathToFileURL(join(dir, 'shape.ts')).href)) as { sidesOf(shape: { sides: number }): number };
    assert.equal(shape.sidesOf({ sides: 3 }), 3);
    const old = (await import(pathToFileURL(join(dir, 'old.cts')).href)) as { default: { text: string } };
    assert.equal(old.default.text, '/');
  });

  it('keeps its own lines and columns in stack traces', () => {
    assert.match(run('throws.ts').stderr, /throws\.ts:3:9/);
  });

  it('is refused with the place when its syntax needs code generation', () => {
    const { stderr, status } = run('enum.ts');
    assert.match(stderr, /enum\.ts:1[\s\S]*enum is not supported/);
    assert.notEqual(status, 0);
  });
});
