/**
 * The documentation is true: its programs run and print what the page says, and its tables are those of the code.
 *
 * A code block marked ```` ```ts run ```` is part of a program. One with imports begins a program, the marked ones behind it on the page belong to it. With a number
 * (```` ```ts run 2 ````) the program runs on so many ranks. Where a line reads `console.log(...); // text`, that text is what it prints, or what rank 0 does.
 */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parseArguments } from '../src/cli/arguments.js';
import { type AnyCommand, isGroup } from '../src/cli/command.js';
import { loadRoot } from '../src/cli/registry.js';
import { typescriptExecArgv } from '../src/launch/typescript/typescript.js';
import { QP_STATES, QP_TYPES, type QpType, STATUS, transitionsOf } from '../src/verbs/index.js';
import { headingsOf, linksOf } from './page-links.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const WATCHDOG_MS = 120_000;
const VERBS = 'docs/verbs.md';

/** Everything that is written for users. */
const EVERY_PAGE = ['', 'docs', ...readdirSync(join(root, 'examples')).map((name) => join('examples', name))].flatMap((folder) =>
  folder.endsWith('.ts')
    ? []
    : readdirSync(join(root, folder))
        .filter((name) => name.endsWith('.md'))
        .map((name) => join(folder, name)),
);

/** Programs of the reader's own, by the names that pages give them. */
const USERS_FILES = ['train.ts', 'job.ts'];

const read = (page: string) => readFileSync(join(root, page), 'utf8');

/** The programs of a page, the lines each says it prints, and on how many ranks. */
function programsOf(markdown: string): { source: string; prints: string[]; ranks: number }[] {
  const programs: { source: string; ranks: number }[] = [];
  for (const [, ranks = '1', block] of markdown.matchAll(/^```ts run(?: (\d+))?\n([\s\S]*?)^```$/gm)) {
    const last = programs.at(-1);
    if (last === undefined || /^import /m.test(block)) programs.push({ source: block, ranks: Number(ranks) });
    else last.source += `\n${block}`;
  }
  return programs.map(({ source, ranks }) => {
    const prints = [...source.matchAll(/^\s*(?:if \(.*?\) )?console\.log\(.*\); +\/\/ (.*)$/gm)].map((match) => match[1]);
    return { source, prints, ranks };
  });
}

/** The command lines of a page, word by word, in code of their own lines and inside sentences. `a|b` stands for the first. */
function commandLines(markdown: string): string[][] {
  const own = markdown.matchAll(/^(?:[A-Z_]+=\S+ )*(?:(?:mpirun|srun) .*?)?(?:verbena|node bin\/verbena\.js) ([a-z].*)$/gm);
  const inside = markdown.matchAll(/`(?:verbena|node bin\/verbena\.js) ([^`\n]+)`/g);
  return [...own, ...inside]
    .map(([, line]) => line.replace(/\s{2,}.*$|\s#.*$/, ''))
    .map((line) => [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain.split('|')[0]))
    .filter((words) => !words.some((word) => word === '' || word.endsWith('...')));
}

/** The text between two markers of a page. */
function marked(markdown: string, name: string): string {
  const found = new RegExp(`<!-- ${name} -->\n([\\s\\S]*?)\n<!-- /${name} -->`).exec(markdown);
  assert.ok(found, `the page has a part marked ${name}`);
  return found[1];
}

/** The transitions of qp-state.ts as the page shows them: required attributes, then the optional ones in parentheses. */
function transitionTable(): string {
  const cell = (type: QpType, from: string, to: string) => {
    const found = transitionsOf(type).find((transition) => transition.from === from && transition.to === to);
    if (!found) return '-';
    const optional = found.optional.length > 0 ? `(${found.optional.join(', ')})` : '';
    return [found.required.join(', '), optional].filter((text) => text !== '').join(' ') || 'nothing';
  };
  const rows = QP_STATES.flatMap((from) =>
    QP_STATES.filter((to) => to !== 'RESET' && to !== 'ERR')
      .filter((to) => QP_TYPES.some((type) => cell(type, from, to) !== '-'))
      .map((to) => `| ${from} to ${to} | ${QP_TYPES.map((type) => cell(type, from, to)).join(' | ')} |`),
  );
  return [`| | ${QP_TYPES.join(' | ')} |`, `|---|${'---|'.repeat(QP_TYPES.length)}`, ...rows].join('\n');
}

describe('documentation', () => {
  let dir: string;

  before(() => {
    dir = mkdtempSync(join(tmpdir(), 'verbena-docs-'));
    writeFileSync(join(dir, 'package.json'), '{ "type": "module" }');
    mkdirSync(join(dir, 'node_modules'));
    symlinkSync(root, join(dir, 'node_modules', 'verbena'));
    // What the pages read.
    mkdirSync(join(dir, 'notes'));
    writeFileSync(join(dir, 'notes', 'hamlet.txt'), 'to be or not to be\nthat is the question\n');
  });
  after(() => rmSync(dir, { recursive: true }));

  for (const page of EVERY_PAGE) {
    for (const [i, { source, prints, ranks }] of programsOf(read(page)).entries()) {
      it(`program ${i + 1} in ${page} runs and prints what the page says`, () => {
        assert.ok(prints.length > 0, 'the program prints something');
        const file = join(dir, `${page.replaceAll(/\W/g, '-')}-${i + 1}.ts`);
        writeFileSync(file, source);
        const words =
          ranks > 1 ? [join(root, 'bin', 'verbena.js'), 'run', '-n', String(ranks), file] : [...typescriptExecArgv(), file];
        const { stdout, stderr, status } = spawnSync(process.execPath, words, {
          cwd: dir,
          encoding: 'utf8',
          timeout: WATCHDOG_MS,
          killSignal: 'SIGKILL',
        });
        assert.equal(stderr, '');
        const lines = stdout.trimEnd().split('\n');
        const shown = ranks > 1 ? lines.filter((line) => line.startsWith('[0] ')).map((line) => line.slice(4)) : lines;
        assert.deepEqual(shown, prints);
        assert.equal(status, 0);
      });
    }
  }

  it('the table of transitions is that of the code', () => {
    assert.equal(marked(read(VERBS), 'table:transitions'), transitionTable());
  });

  it('every status stands in the table with its number, or among those that never occur', () => {
    const table = marked(read(VERBS), 'table:statuses');
    const listed = new Map([...table.matchAll(/^\| `([A-Z_]+)` \| (\d+) \|/gm)].map((row) => [row[1], Number(row[2])]));
    const never = new Set([...marked(read(VERBS), 'statuses:never').matchAll(/`([A-Z_]+)`/g)].map((match) => match[1]));
    for (const [name, code] of Object.entries(STATUS)) {
      if (never.has(name)) assert.ok(!listed.has(name), `${name} cannot both occur and not`);
      else assert.equal(listed.get(name), code, name);
    }
    assert.equal(listed.size + never.size, Object.keys(STATUS).length);
  });

  it('what the table of libibverbs names exists', () => {
    const folder = join(root, 'src', 'verbs');
    const sources = readdirSync(folder)
      .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
      .map((name) => readFileSync(join(folder, name), 'utf8'))
      .join('\n');
    const rows = marked(read(VERBS), 'table:spelling').split('\n').slice(2);
    assert.ok(rows.length > 40);
    for (const row of rows) {
      const here = row.split('|')[2];
      for (const [, name] of here.matchAll(/`(?:[\w.]+\.)?(\w+)/g)) {
        assert.match(sources, new RegExp(`\\b${name}\\b`), `${name} of the row ${row}`);
      }
    }
  });

  it('links lead to files and headings that are there', () => {
    for (const page of EVERY_PAGE) {
      for (const { path, heading } of linksOf(page, read(page))) {
        assert.ok(existsSync(join(root, path)), `${page} links to ${path}`);
        if (heading !== '') assert.ok(headingsOf(read(path)).includes(heading), `${page} links to ${path}#${heading}`);
      }
    }
  });

  it('files that pages about the code name are there', () => {
    const folders = ['src', 'native', 'scripts', 'test', 'conformance', 'bench', 'deploy'];
    const files = folders.flatMap((folder) =>
      (readdirSync(join(root, folder), { recursive: true }) as string[]).map((name) => `/${join(folder, name)}`),
    );
    for (const page of EVERY_PAGE.filter((name) => !name.startsWith('examples'))) {
      for (const [, name] of read(page).matchAll(/`([\w*./-]+\.(?:ts|c|h|mjs|yaml))`/g)) {
        if (USERS_FILES.includes(name)) continue;
        const pattern = new RegExp(`/${name.replaceAll('.', '\\.').replaceAll('*', '[^/]*')}$`);
        assert.ok(
          files.some((file) => pattern.test(file)),
          `${page} names ${name}`,
        );
      }
    }
  });

  it('command lines name commands and options that exist', async () => {
    const all = await loadRoot();
    let checked = 0;
    for (const page of EVERY_PAGE) {
      for (const words of commandLines(read(page))) {
        let command: AnyCommand = all;
        let at = 0;
        while (isGroup(command) && at < words.length && !words[at].startsWith('-')) {
          const next: AnyCommand | undefined = command.commands.find(({ name }) => name === words[at]);
          assert.ok(next, `${page}: verbena ${words.join(' ')}`);
          command = next;
          at++;
        }
        checked++;
        if (isGroup(command)) continue;
        // A sentence may leave arguments out.
        const positionals = command.positionals?.map((spec) => ({ ...spec, required: false })) ?? [];
        const { options } = command;
        assert.doesNotThrow(() => parseArguments(words.slice(at), options, positionals), `${page}: verbena ${words.join(' ')}`);
      }
    }
    assert.ok(checked > 100, `${checked} command lines`);
  });

  it('imports name exports that exist', async () => {
    let checked = 0;
    for (const page of EVERY_PAGE) {
      for (const [, names, from] of read(page).matchAll(/^import \{([^}]*)\} from '(verbena\/[\w/]+)';/gm)) {
        const module = (await import(from)) as Record<string, unknown>;
        for (const name of names
          .split(',')
          .map((word) => word.trim())
          .filter((word) => word !== '' && !word.startsWith('type '))) {
          assert.ok(name in module, `${page}: ${name} of ${from}`);
          checked++;
        }
      }
    }
    assert.ok(checked > 20, `${checked} names`);
  });
});
