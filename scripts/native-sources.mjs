/** The C sources of native/ that test programs are linked with. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename, join } from 'node:path';
import { root } from './setup.mjs';

const native = join(root, 'native');

/** Names of the .c files of a folder; none when there is no such folder. */
export function cFiles(dir) {
  try {
    return readdirSync(dir).filter((name) => name.endsWith('.c'));
  } catch (error) {
    if (error.code === 'ENOENT') return [];
    throw error;
  }
}

/** Whether a file of native/ includes Node's headers, directly or through headers of native/. */
function isDoorway(name, seen = new Set()) {
  if (seen.has(name)) return false;
  seen.add(name);
  const text = readFileSync(join(native, name), 'utf8');
  if (/^\s*#\s*include\s*[<"](node_api|uv)\.h[>"]/m.test(text)) return true;
  const headers = [...text.matchAll(/^\s*#\s*include\s*"([^"/]+)"/gm)].map((match) => match[1]);
  return headers.some((header) => isDoorway(header, seen));
}

/** Paths of the files that do not include <node_api.h> or "uv.h": the others are the doorway and need a Node around them. */
export function nativeSources() {
  return cFiles(native)
    .filter((name) => !isDoorway(name))
    .map((name) => join(native, name));
}

/** Compiles these sources side by side into `directory`. `command`: the compiler with its flags. Returns the object files, or undefined when one failed. */
export function compileObjects(command, directory) {
  mkdirSync(directory, { recursive: true });
  const pairs = nativeSources().map((source) => [join(directory, `${basename(source, '.c')}.o`), source]);
  const args = ['-0', '-n', '2', '-P', String(availableParallelism()), ...command, '-c', '-o'];
  const { status } = spawnSync('xargs', args, { input: pairs.flat().join('\0'), stdio: ['pipe', 'inherit', 'inherit'] });
  return status === 0 ? pairs.map(([object]) => object) : undefined;
}
