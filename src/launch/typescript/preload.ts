/** Loaded by `node --import` in child processes and worker threads, so that they run .ts files (see typescript.ts). */
import { isMainThread } from 'node:worker_threads';
import { registerTypeScript } from './typescript.js';

await registerTypeScript(isMainThread ? process.argv[1] : undefined);
