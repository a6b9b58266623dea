/** Four processes average their gradients. This file is the launcher and, started by itself with a rank, also each rank. */

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { allreduceAsRank } from './rank.js';

const SIZE = 4;
const [rank, directory] = process.argv.slice(2);

if (rank === undefined) {
  const meeting = mkdtempSync(join(tmpdir(), 'verbena-example-'));
  const file = fileURLToPath(import.meta.url);
  const ranks = Array.from({ length: SIZE }, (_, r) =>
    spawn(process.execPath, [...process.execArgv, file, String(r), meeting], { stdio: 'inherit' }),
  );
  const codes = await Promise.all(ranks.map((child) => new Promise((resolve) => child.on('close', resolve))));
  rmSync(meeting, { recursive: true, force: true });
  process.exitCode = codes.every((code) => code === 0) ? 0 : 1;
} else {
  await allreduceAsRank(Number(rank), SIZE, directory, (line) => console.log(line));
}
