/**
 * `npm run build:prebuilt`: compiles the addon for this machine's architecture into prebuilds/, with the hash of its sources beside it. Run it
 * on the oldest C library to be supported; a machine whose library is older still compiles for itself.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { root, setup } from './setup.mjs';

await setup();
const { compileAddon, hashSources, prebuildPath } = await import(pathToFileURL(join(root, 'dist/src/native/build.js')).href);
const output = prebuildPath();
mkdirSync(dirname(output), { recursive: true });
compileAddon(output);
writeFileSync(`${output}.hash`, `${hashSources()}\n`);
console.log(output);
