/** Loaded by `node --import` in child processes and worker threads, so that they run .ts files (see typescript.ts). */
import { registerTypeScript } from './typescript.js';

registerTypeScript();
