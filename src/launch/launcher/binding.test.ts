import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, describe, it } from 'node:test';
import { cpusFor } from './binding.js';

/** Two NUMA nodes of two cores with two hardware threads each: core k has the CPUs k and k + 4. */
const root = mkdtempSync(join(tmpdir(), 'verbena-binding-'));
after(() => rmSync(root, { recursive: true }));
const file = (path: string, text: string) => {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
};
file('proc/self/status', 'Name:\tnode\nCpus_allowed_list:\t0-7\n');
file('sys/devices/system/node/node0/cpulist', '0-1,4-5\n');
file('sys/devices/system/node/node1/cpulist', '2-3,6-7\n');
for (let cpu = 0; cpu < 8; cpu++)
  file(`sys/devices/system/cpu/cpu${cpu}/topology/thread_siblings_list`, `${cpu % 4},${(cpu % 4) + 4}\n`);

const bind = (binding: 'core' | 'numa' | 'none', size: number) =>
  Array.from({ length: size }, (_, rank) => cpusFor(binding, rank, size, root)?.join(' '));

describe('binding', () => {
  it('to cores gives each rank its own, several when there are more than ranks, and in turn when there are fewer', () => {
    assert.deepEqual(bind('core', 4), ['0 4', '1 5', '2 6', '3 7']);
    assert.deepEqual(bind('core', 2), ['0 4 1 5', '2 6 3 7']);
    assert.deepEqual(bind('core', 6), ['0 4', '1 5', '2 6', '3 7', '0 4', '1 5']);
  });

  it('to NUMA nodes spreads ranks in blocks', () => {
    assert.deepEqual(bind('numa', 4), ['0 1 4 5', '0 1 4 5', '2 3 6 7', '2 3 6 7']);
    assert.deepEqual(bind('numa', 1), ['0 1 4 5']);
  });

  it('to nothing leaves the ranks alone', () => {
    assert.deepEqual(bind('none', 2), [undefined, undefined]);
  });
});
