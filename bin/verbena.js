#!/usr/bin/env node
/** The `verbena` command. In a clone that was never built it builds first; an installed package holds everything. */
import { existsSync } from 'node:fs';

const program = new URL('../dist/src/cli/main.js', import.meta.url);
const setupScript = new URL('../scripts/setup.mjs', import.meta.url);

if (!existsSync(program) && existsSync(setupScript)) {
  const { setup } = await import(setupScript.href);
  await setup().catch((error) => {
    console.error(`verbena: ${error.message}`);
    process.exit(1);
  });
}
// Who reads may have gone (`verbena ... | head`), or the disk of the output is full: said once, and the end. What was started ends with this process.
process.stdout.on('error', (error) => {
  if (error.code === 'EPIPE') process.exit(141);
  console.error(`verbena: cannot write to stdout: ${error.message}`);
  process.exit(1);
});
const { main } = await import(program.href);
process.exitCode = await main(process.argv.slice(2));
