/**
 * Every public name is explained where it is declared: what the entries of package.json export, and the members of options, which say default, unit and range.
 * The main thing of a file, which carries its name, is explained by the comment that opens the file. Reads the declarations that the compiler has written, whose form is regular. Prints
 * what has no doc comment and fails then.
 */
import { readFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { root } from './setup.mjs';

const DECLARATION = /^export (?:declare )?(?:abstract )?(function|class|const|interface|type|enum|namespace) (\w+)/;
const MEMBER = /^ {4}(?:(?:readonly|static|abstract|get|set|accessor|declare) )*(?:([\w$]+)|\[[^\]]+\])(?:\?)?(?:[(:<]|;)/;
/** Their name says whose they are; each member says default, unit and range. */
const OPTIONS = /(Options|Init|Question)$/;

const files = new Map();

/** Declarations of a file by name: where, and whether a comment stands before it; and what it passes on from other files. */
function read(file) {
  const known = files.get(file);
  if (known) return known;
  const lines = readFileSync(file, 'utf8').split('\n');
  const entry = { names: new Map(), passedOn: [] };
  files.set(file, entry);
  let open; // the class or interface whose members follow
  for (const [i, line] of lines.entries()) {
    const documented = /\*\/\s*$/.test(lines[i - 1] ?? '');
    const [, kind, name] = DECLARATION.exec(line) ?? [];
    if (name !== undefined) {
      const before = entry.names.get(name);
      const declared = before ?? { documented: false, members: new Map() };
      declared.documented ||= documented;
      entry.names.set(name, declared);
      open = (kind === 'class' || kind === 'interface') && line.endsWith('{') ? declared : undefined;
      continue;
    }
    if (line === '}') open = undefined;
    const member = open && MEMBER.exec(line);
    if (member?.[1]) open.members.set(member[1], documented || open.members.get(member[1]) === true);
    const from = /^export (type )?(\*|\{[^}]*\}) from '(\.[^']*)\.js';/.exec(line);
    if (from) {
      const names =
        from[2] === '*'
          ? undefined
          : from[2]
              .slice(1, -1)
              .split(',')
              .map((word) =>
                word
                  .trim()
                  .replace(/^type /, '')
                  .split(' as '),
              );
      entry.passedOn.push({ file: join(dirname(file), `${from[3]}.d.ts`), names });
    }
  }
  return entry;
}

/** All names that a file exports, with their declaration. */
function* exported(file) {
  const { names, passedOn } = read(file);
  for (const [name, declared] of names) yield [file, name, declared];
  for (const { file: next, names: wanted } of passedOn) {
    for (const found of exported(next)) if (wanted === undefined || wanted.some(([name]) => name === found[1])) yield found;
  }
}

/** Whether `name` is the main thing of the source file, and the file opens with a comment. */
function opensFile(name, place) {
  const plain = (text) => text.replace(/[^a-z0-9]/gi, '').toLowerCase();
  return plain(basename(place, '.ts')) === plain(name) && readFileSync(join(root, place), 'utf8').startsWith('/**');
}

const { exports: entries } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const missing = new Set();
let count = 0;
for (const { types } of Object.values(entries)) {
  if (types === undefined) continue;
  for (const [file, name, { documented, members }] of exported(join(root, types))) {
    count++;
    const place = relative(join(root, 'dist'), file).replace(/\.d\.ts$/, '.ts');
    const isOptions = OPTIONS.test(name);
    if (!documented && !isOptions && !opensFile(name, place)) missing.add(`${place}: ${name}`);
    if (!isOptions) continue;
    for (const [member, said] of members) if (!said) missing.add(`${place}: ${name}.${member}`);
  }
}
for (const line of [...missing].sort()) console.error(line);
if (missing.size > 0) console.error(`${missing.size} public names have no doc comment`);
process.exitCode = missing.size > 0 || count < 100 ? 1 : 0;
